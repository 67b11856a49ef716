/* Plug-ins for tests/test_policies.py: one decision each, by the macro that it is compiled with. */
#include <stddef.h>

#include "policy.h"

#if defined(GREEDY)
static uint32_t choose_victim(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *all) {
    uint32_t best = DRIVEBAY_NONE;
    for (uint32_t i = 0; i < drive->superblocks; i++) {
        if (!all[i].candidate) continue;
        if (best == DRIVEBAY_NONE || all[i].valid < all[best].valid ||
            (all[i].valid == all[best].valid && all[i].age > all[best].age)) {
            best = i;
        }
    }
    return best;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .choose_victim = choose_victim};

#elif defined(OLDEST) || defined(FULL)
/* The superblock that was sealed first, full or not, as `gc.victim_policy = "fifo"`; or always a full one, if there is one. */
static uint32_t choose_victim(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *all) {
    uint32_t best = DRIVEBAY_NONE;
    for (uint32_t i = 0; i < drive->superblocks; i++) {
        if (all[i].state != DRIVEBAY_SEALED) continue;
#if defined(FULL)
        if (all[i].valid == drive->superblock_pages) return i;
#endif
        if (best == DRIVEBAY_NONE || all[i].age > all[best].age) best = i;
    }
    return best;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .choose_victim = choose_victim};

#elif defined(RANDOM)
/* Any candidate, by a generator that stands in the state. */
static uint64_t state_bytes(const struct drivebay_drive *drive) { return sizeof(uint64_t); }
static void start(void *state, const struct drivebay_drive *drive, uint64_t seed) {
    *(uint64_t *)state = seed | 1;
}
static uint32_t choose_victim(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *all) {
    uint64_t *x = state;
    for (;;) {
        *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
        uint32_t i = (uint32_t)(*x >> 32) % drive->superblocks;
        if (all[i].candidate) return i;
    }
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table,
    .state_bytes = state_bytes, .start = start, .choose_victim = choose_victim};

#elif defined(LIFESPAN)
/* What `gc.host_frontiers = "by-lifespan"` does. */
static uint32_t place_write(void *state, const struct drivebay_drive *drive,
                            const struct drivebay_write *write) {
    int of_host = write->replaced_stream != DRIVEBAY_NONE && write->replaced_stream != 1;
    return !(of_host && write->lifespan_pages < write->mean_lifespan_pages);
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .place_write = place_write};

#elif defined(EAGER)
/* Twice as much garbage collection as the drive would do. */
static void set_pace(void *state, const struct drivebay_drive *drive, uint64_t pages,
                     struct drivebay_pace *pace) {
    pace->gain_256 *= 2;
    pace->duty_256 *= 2;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .set_pace = set_pace};

#elif defined(LEVEL)
/* Static wear levelling by a threshold: what is more than SPREAD_MAX erases behind is moved. */
static uint32_t level_wear(void *state, const struct drivebay_drive *drive,
                           const struct drivebay_superblock *all) {
    uint32_t most = 0, best = DRIVEBAY_NONE;
    for (uint32_t i = 0; i < drive->superblocks; i++) {
        if (all[i].state != DRIVEBAY_BAD && all[i].erases > most) most = all[i].erases;
        if (!all[i].candidate) continue;
        if (best == DRIVEBAY_NONE || all[i].erases < all[best].erases ||
            (all[i].erases == all[best].erases && all[i].age > all[best].age)) {
            best = i;
        }
    }
    return most - all[best].erases > SPREAD_MAX ? best : DRIVEBAY_NONE;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .level_wear = level_wear};

#elif defined(LEAST_WORN) || defined(MOST_WORN)
static uint32_t open_superblock(void *state, const struct drivebay_drive *drive,
                                const struct drivebay_superblock *all) {
    uint32_t best = DRIVEBAY_NONE;
    for (uint32_t i = 0; i < drive->superblocks; i++) {
        if (!all[i].candidate) continue;
#if defined(MOST_WORN)
        if (best == DRIVEBAY_NONE || all[i].erases > all[best].erases) best = i;
#else
        if (best == DRIVEBAY_NONE || all[i].erases < all[best].erases) best = i;
#endif
    }
    return best;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .open_superblock = open_superblock};

#elif defined(READS)
/* All reads alike: 0 suspend what runs, 1 wait for it, 2 wait for all. */
static uint64_t state_bytes(const struct drivebay_drive *drive) { return sizeof(uint64_t); }
static uint32_t schedule_read(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_die_read *read) {
    ++*(uint64_t *)state;
    if (read->running_ns > read->all_ns || read->writes == 0) return 99;
    return ANSWER;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table,
    .state_bytes = state_bytes, .schedule_read = schedule_read};

#elif defined(RETRIED)
/* Moves all data that needed a retry, or none. */
static uint32_t read_retried(void *state, const struct drivebay_drive *drive,
                             const struct drivebay_retried_read *read) {
    if (read->retries < 1 || read->retries > read->retries_max) return 99;
    return ANSWER;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .read_retried = read_retried};

#elif defined(FIRST_TABLE)
/* The table as version 1 began; what lies behind it is not its. */
static void set_pace(void *state, const struct drivebay_drive *drive, uint64_t pages,
                     struct drivebay_pace *pace) {
    pace->gain_256 *= 2;
    pace->duty_256 *= 2;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = offsetof(struct drivebay_policy_table, level_wear),
    .set_pace = set_pace, .level_wear = (void *)1, .schedule_read = (void *)1};

#elif defined(WRONG)
static uint32_t choose_victim(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *all) {
    return drive->superblocks;
}
static const struct drivebay_policy_table table = {
    .abi = DRIVEBAY_POLICY_ABI, .size = sizeof table, .choose_victim = choose_victim};

#elif defined(NEWER)
static const struct drivebay_policy_table table = {.abi = 99, .size = sizeof table};
#endif

const struct drivebay_policy_table *drivebay_policy(void) { return &table; }
