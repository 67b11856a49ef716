// Reads and writes of 4 KiB at random, 70 and 30 %, at queue depth 16; prints the time that each takes to simulate.
//
// mixed PROFILE REQUESTS [STATE]: STATE is a saved state, else the drive is empty.
#include <drivebay.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static drivebay_drive *drive;
static uint64_t random_state = 1;

static void fail(void) {
    fprintf(stderr, "error: %s\n", drivebay_error());
    exit(1);
}

// Linear congruential generator with Knuth's constants.
static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005 + 1442695040888963407;
    return (random_state >> 33) % below;
}

static void submit(uint64_t at_ns, uint32_t tag) {
    drivebay_request request = {.at_ns = at_ns, .sectors = 8, .tag = tag};
    request.lba = draw(drivebay_capacity(drive) / 8) * 8;
    request.op = draw(10) < 7 ? DRIVEBAY_OP_READ : DRIVEBAY_OP_WRITE;
    if (drivebay_submit(drive, &request) != 0)
        fail();
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    drive = drivebay_create(argv[1], argc > 3 ? argv[3] : NULL, 1);
    if (!drive)
        fail();
    uint64_t begin_ns = drivebay_now(drive), count = strtoull(argv[2], NULL, 10), sum = 0;
    clock_t begin = clock();
    for (uint32_t tag = 0; tag < 16; tag++)
        submit(begin_ns, tag);
    drivebay_completion done;
    for (uint64_t number = 0; number < count; number++) {
        if (drivebay_next_completion(drive, UINT64_MAX, &done) != 1)
            fail();
        sum = sum * 31 + done.done_ns;
        submit(done.done_ns, done.tag);
    }
    double took_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    drivebay_counters counters;
    if (drivebay_read_counters(drive, &counters) != 0)
        fail();
    printf("%" PRIu64 " requests in %" PRIu64 " ns, checksum %016" PRIx64 ", %" PRIu64 " pages programmed\n", count,
           done.done_ns - begin_ns, sum, counters.placed_pages);
    printf("%.0f ns of processor time per request\n", took_s * 1e9 / (double)count);
    drivebay_destroy(drive);
    return 0;
}
