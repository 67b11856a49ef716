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
    uint32_t superblocks;         /* entries of a list of superblocks */
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
    uint32_t candidate; /* 1 if the decision at hand may choose it */
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

/* A read of flash, whoever needs it, that meets a program or an erase on its die. Times count from the moment at which it
 * could begin if there was none: it has been asked for, and the reads before it are over. Programs are seen as soon as
 * all planes of the die are filled and the data is there. */
struct drivebay_die_read {
    uint64_t read_ns;    /* the array part of the read */
    uint64_t running_ns; /* what the program or erase that runs has left; 0 if none has begun */
    uint64_t all_ns;     /* until all that were asked for so far have ended, if no read comes between */
    uint64_t suspend_ns; /* how long it takes to suspend what runs */
    uint64_t waited_ns;  /* how long the read has waited for reads already */
    uint32_t writes;     /* programs and erases that have not ended */
    uint32_t die;        /* number of the die */
};

/* A read of flash, whoever needed it, that had to be repeated. */
struct drivebay_retried_read {
    uint64_t age_ns;      /* since the superblock was opened */
    uint32_t superblock;  /* its number */
    uint32_t retries;     /* readings beyond the first */
    uint32_t retries_max; /* most that the drive makes */
    uint32_t lost;        /* pages that could not be read all the same */
    uint32_t reads;       /* of flash pages of the superblock since it was opened */
    uint32_t cycles;      /* its erases, when it was opened */
};

struct drivebay_policy_table {
    uint32_t abi;  /* DRIVEBAY_POLICY_ABI */
    uint32_t size; /* sizeof(struct drivebay_policy_table); a table may end after any function from set_pace on */
    /* Bytes of state on this drive, at most 512 MiB. NULL: none. */
    uint64_t (*state_bytes)(const struct drivebay_drive *drive);
    /* A drive as new, or after a purge: the state is all zeros, aligned to 8 bytes. NULL: zeros will do. */
    void (*start)(void *state, const struct drivebay_drive *drive, uint64_t seed);
    /* Once per victim: the index of a candidate, of which there is at least one: sealed, with fewer valid pages than it has
     * pages. A sealed one that is full may be named as well, as a circular log does, but not as many in a row as there are
     * superblocks. Every copied superblock asks once. */
    uint32_t (*choose_victim)(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *superblocks);
    /* Once per write command: 0 for the host's first frontier, 1 for its second. Not beside an SLC cache or a frontier
     * that host and garbage collection share. */
    uint32_t (*place_write)(void *state, const struct drivebay_drive *drive,
                            const struct drivebay_write *write);
    /* Once per write command while fewer than start_free_pages are free; the command, with padding, took `pages`. */
    void (*set_pace)(void *state, const struct drivebay_drive *drive, uint64_t pages,
                     struct drivebay_pace *pace);
    /* In place of static wear levelling. Once per victim, but not right after one that it named: the index of a
     * candidate, sealed, full or not, whose data is to be moved so that its flash wears too; or DRIVEBAY_NONE. */
    uint32_t (*level_wear)(void *state, const struct drivebay_drive *drive,
                           const struct drivebay_superblock *superblocks);
    /* In place of dynamic wear levelling. Once per superblock opened, for the one after it: the index of a candidate, a
     * free one, of which there is at least one. It may be erased ahead. */
    uint32_t (*open_superblock)(void *state, const struct drivebay_drive *drive,
                                const struct drivebay_superblock *superblocks);
    /* Once per read that meets a program or an erase on its die: 0 to suspend what runs, as the drive itself does; 1 to
     * wait for what runs, and pass what waits; 2 to wait for all. Reads keep their order. Not where the planes of a die
     * read by themselves. Its state is not that of the other functions: it is made and set by the same two. Of `drive`
     * the numbers that change, free_pages and free_superblocks, are 0. */
    uint32_t (*schedule_read)(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_die_read *read);
    /* Once per read that needed retries, on drives that have errors: 1 to have the superblock's data moved, as the drive
     * itself does where it was read too often; 0 to leave it. */
    uint32_t (*read_retried)(void *state, const struct drivebay_drive *drive,
                             const struct drivebay_retried_read *read);
};

/* What a plug-in exports; the table stays where it is. */
const struct drivebay_policy_table *drivebay_policy(void);

#endif
