/* Policy plug-ins of drivebay, version 1: the structures and functions between a plug-in and the virtual drive.
 *
 * A plug-in is a shared library that exports drivebay_policy(). Each decision that its table has a function for is
 * taken by it; where the table has NULL, the drive decides as its profile says. Pages are of 4 KiB.
 *
 * What a plug-in must keep to:
 * - The same arguments give the same answer: no clock, no random numbers but its own from `seed`, no memory but `state`.
 *   The drive owns the state: it copies, saves and reads it back as bytes. So no pointer may stand in it.
 * - Several drives ask at the same time, from several threads, each with a state of its own.
 * - Nothing it is given may be kept after the call. It may not end the process or throw.
 */
#ifndef DRIVEBAY_POLICY_H
#define DRIVEBAY_POLICY_H

#include <stdint.h>

#define DRIVEBAY_POLICY_ABI 1u
/* No stream. */
#define DRIVEBAY_NONE UINT32_MAX

/* What every decision sees of the drive. */
struct drivebay_drive {
    uint64_t user_pages;          /* that the host sees */
    uint64_t free_pages;          /* erased, or will be when the part of the victim already read is */
    uint64_t start_free_pages;    /* garbage collection behind writes runs while fewer are free */
    uint64_t target_free_pages;   /* as many as the drive's own pacing settles at */
    uint32_t superblock_pages;    /* pages of a superblock */
    uint32_t superblocks;         /* entries of choose_victim's list */
    uint32_t free_superblocks;    /* how many of them are free */
    uint32_t reserve_superblocks; /* how many of those only garbage collection may open */
};

enum drivebay_state {
    DRIVEBAY_FREE = 0,
    DRIVEBAY_OPEN = 1,
    DRIVEBAY_SEALED = 2,
    DRIVEBAY_VICTIM = 3, /* being emptied already */
    DRIVEBAY_BAD = 4
};

struct drivebay_superblock {
    uint64_t age;       /* superblocks sealed since it was; 0 unless it is sealed */
    uint32_t valid;     /* pages that would have to be copied */
    uint32_t erases;    /* times erased */
    uint32_t state;     /* enum drivebay_state */
    uint32_t stream;    /* which filled it: 0 the host's first, 1 garbage collection's (0 if shared), 2 the host's second */
    uint32_t candidate; /* 1 if it may be chosen: sealed, with fewer valid pages than it has pages */
    uint32_t reserved;  /* 0 */
};

/* A write command of the host; it goes to one frontier, by its first page. */
struct drivebay_write {
    uint64_t lpn;                 /* number of its first page */
    uint64_t lifespan_pages;      /* pages that the host wrote since the superblock of the data that it replaces was opened */
    uint64_t mean_lifespan_pages; /* mean of that over the last 16 superblocks of the first stream that were reclaimed;
                                     UINT64_MAX at first */
    uint32_t pages;               /* how many it writes */
    uint32_t replaced_stream;     /* which stream wrote what it replaces; DRIVEBAY_NONE if it replaces nothing */
};

/* Garbage collection behind a command, in 1/256; what the drive itself would do, to be changed. At most 1 << 20. */
struct drivebay_pace {
    uint64_t gain_256; /* pages to be given back per page that the host writes: 256 keeps free space as it is */
    uint64_t duty_256; /* the duty limit, as a multiple of the profile's gc.duty_limit_us */
};

struct drivebay_policy_table {
    uint32_t abi;  /* DRIVEBAY_POLICY_ABI */
    uint32_t size; /* sizeof(struct drivebay_policy_table) */
    /* Bytes of state on this drive, at most 512 MiB. NULL: none. */
    uint64_t (*state_bytes)(const struct drivebay_drive *drive);
    /* A drive as new, or after a purge: the state is all zeros, aligned to 8 bytes. NULL: zeros will do. */
    void (*start)(void *state, const struct drivebay_drive *drive, uint64_t seed);
    /* Once per victim: the index of a candidate, of which there is at least one. Every copied superblock asks once. */
    uint32_t (*choose_victim)(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *superblocks);
    /* Once per write command: 0 for the host's first frontier, 1 for its second. Not beside an SLC cache or a frontier
     * that host and garbage collection share. */
    uint32_t (*place_write)(void *state, const struct drivebay_drive *drive,
                            const struct drivebay_write *write);
    /* Once per write command while fewer than start_free_pages are free; the command, with padding, took `pages`. */
    void (*set_pace)(void *state, const struct drivebay_drive *drive, uint64_t pages,
                     struct drivebay_pace *pace);
};

/* What a plug-in exports; the table stays where it is. */
const struct drivebay_policy_table *drivebay_policy(void);

#endif
