/* Policy plug-ins of drivebay, version 1: the structures and functions between a plug-in and the virtual drive.
 *
 * A plug-in is a shared library that exports drivebay_policy(). It takes each decision for which its table has a
 * function; for the NULL entries the drive decides according to its profile. A page has 4 KiB.
 *
 * Rules for a plug-in:
 * - Equal arguments must give equal answers: no clock, no random numbers except its own from `seed`, no memory except
 *   `state`. The drive owns the state: it copies, saves and restores it as bytes. So it must not contain pointers.
 * - Several drives call it at the same time, from several threads, each with its own state.
 * - It must not keep its arguments after the call. It must not end the process or throw.
 */
#ifndef DRIVEBAY_POLICY_H
#define DRIVEBAY_POLICY_H

#include <stdint.h>

#define DRIVEBAY_POLICY_ABI 1u
/* No stream. */
#define DRIVEBAY_NONE UINT32_MAX

/* State of the drive, passed to every decision. */
struct drivebay_drive {
    uint64_t user_pages;          /* pages visible to the host */
    uint64_t free_pages;          /* erased pages, and those that will be once the part of the victim already read is */
    uint64_t start_free_pages;    /* garbage collection after writes runs while fewer are free */
    uint64_t target_free_pages;   /* number at which the drive's own pacing settles */
    uint32_t superblock_pages;    /* pages of a superblock */
    uint32_t superblocks;         /* length of a list of superblocks */
    uint32_t free_superblocks;    /* number of free ones */
    uint32_t reserve_superblocks; /* free ones that only garbage collection may open */
};

enum drivebay_state {
    DRIVEBAY_FREE = 0,
    DRIVEBAY_OPEN = 1,
    DRIVEBAY_SEALED = 2,
    DRIVEBAY_VICTIM = 3, /* being emptied */
    DRIVEBAY_BAD = 4
};

struct drivebay_superblock {
    uint64_t age;       /* superblocks sealed after it; 0 unless it is sealed */
    uint32_t valid;     /* pages that would have to be copied */
    uint32_t erases;    /* times erased */
    uint32_t state;     /* enum drivebay_state */
    uint32_t stream;    /* stream that filled it: 0 the host's first, 1 garbage collection's (0 if shared), 2 the host's second */
    uint32_t candidate; /* 1 if the present decision may choose it */
    uint32_t reserved;  /* 0 */
};

/* A write command of the host. All of it goes to one frontier, chosen by its first page. */
struct drivebay_write {
    uint64_t lpn;                 /* number of its first page */
    uint64_t lifespan_pages;      /* pages that the host wrote since the superblock of the overwritten data was opened */
    uint64_t mean_lifespan_pages; /* mean of that over the last 16 superblocks of the first stream that were reclaimed;
                                     UINT64_MAX at first */
    uint32_t pages;               /* number of pages written */
    uint32_t replaced_stream;     /* stream that wrote the overwritten data; DRIVEBAY_NONE if nothing is overwritten */
};

/* Garbage collection after a command, in 1/256. On entry the drive's own values; may be changed. At most 1 << 20. */
struct drivebay_pace {
    uint64_t gain_256; /* pages to be reclaimed per page that the host writes: 256 keeps free space constant */
    uint64_t duty_256; /* the duty limit, as a multiple of the profile's gc.duty_limit_us */
};

/* A read of flash, for any purpose, that meets a program or an erase on its die. Times count from the moment at which it
 * could begin otherwise: it has been requested, and the reads before it are over. Programs are visible as soon as all
 * planes of the die are filled and the data is present. */
struct drivebay_die_read {
    uint64_t read_ns;    /* the array part of the read */
    uint64_t running_ns; /* remaining time of the running program or erase; 0 if none has begun */
    uint64_t all_ns;     /* until all requested so far have ended, if no read comes between */
    uint64_t suspend_ns; /* time to suspend the running operation */
    uint64_t waited_ns;  /* time that the read has already waited for reads */
    uint32_t writes;     /* programs and erases that have not ended */
    uint32_t die;        /* number of the die */
};

/* A read of flash, for any purpose, that had to be repeated. */
struct drivebay_retried_read {
    uint64_t age_ns;      /* since the superblock was opened */
    uint32_t superblock;  /* its number */
    uint32_t retries;     /* attempts after the first */
    uint32_t retries_max; /* the drive's limit of retries */
    uint32_t lost;        /* pages that could not be read in spite of the retries */
    uint32_t reads;       /* reads of flash pages of the superblock since it was opened */
    uint32_t cycles;      /* its erase count when it was opened */
};

struct drivebay_policy_table {
    uint32_t abi;  /* DRIVEBAY_POLICY_ABI */
    uint32_t size; /* sizeof(struct drivebay_policy_table); a table may end after any function from set_pace on */
    /* Bytes of state on this drive, at most 512 MiB. NULL: none. */
    uint64_t (*state_bytes)(const struct drivebay_drive *drive);
    /* Called for a new drive, or after a purge: the state is all zeros, aligned to 8 bytes. NULL: it stays zero. */
    void (*start)(void *state, const struct drivebay_drive *drive, uint64_t seed);
    /* Called once per victim; returns the index of a candidate, of which there is at least one: a sealed superblock with
     * fewer valid pages than its size. A sealed, full one may be returned as well, as a circular log does, but not as
     * many in a row as there are superblocks. Called once for every copied superblock. */
    uint32_t (*choose_victim)(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_superblock *superblocks);
    /* Called once per write command; returns 0 for the host's first frontier, 1 for its second. Not called with an SLC
     * cache or a frontier that host and garbage collection share. */
    uint32_t (*place_write)(void *state, const struct drivebay_drive *drive,
                            const struct drivebay_write *write);
    /* Called once per write command while fewer than start_free_pages are free; `pages`: size of the command with padding. */
    void (*set_pace)(void *state, const struct drivebay_drive *drive, uint64_t pages,
                     struct drivebay_pace *pace);
    /* Replaces static wear levelling. Called once per victim, but not right after one that it returned; returns the index
     * of a candidate, sealed, full or not, whose data is moved so that its flash wears too; or DRIVEBAY_NONE. */
    uint32_t (*level_wear)(void *state, const struct drivebay_drive *drive,
                           const struct drivebay_superblock *superblocks);
    /* Replaces dynamic wear levelling. Called once per opened superblock, for the next one; returns the index of a
     * candidate, a free superblock, of which there is at least one. It may be erased in advance. */
    uint32_t (*open_superblock)(void *state, const struct drivebay_drive *drive,
                                const struct drivebay_superblock *superblocks);
    /* Called once per read that meets a program or an erase on its die; returns 0 to suspend the running operation, as the
     * drive itself does; 1 to wait for it, and pass the waiting ones; 2 to wait for all. Reads keep their order. Not called
     * if the planes of a die read independently. Its state is separate from that of the other functions, and is made by
     * the same two. In `drive` the changing numbers, free_pages and free_superblocks, are 0. */
    uint32_t (*schedule_read)(void *state, const struct drivebay_drive *drive,
                              const struct drivebay_die_read *read);
    /* Called once per read that needed retries, on drives with errors; returns 1 to move the superblock's data, as the
     * drive itself does after too many reads; 0 to leave it. */
    uint32_t (*read_retried)(void *state, const struct drivebay_drive *drive,
                             const struct drivebay_retried_read *read);
};

/* The only export of a plug-in; the table must stay valid. */
const struct drivebay_policy_table *drivebay_policy(void);

#endif
