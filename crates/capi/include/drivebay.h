// A virtual drive: when is each request complete? The interface of libdrivebay.
//
// Generated from src/lib.rs by cbindgen. Times are in ns of the drive's own clock, which moves only by
// these calls. Pointers are valid, or NULL where a comment allows it; texts are UTF-8 and end with a zero byte.
// A drive is used by one thread at a time.
//
// Simulators with events: submit at the event's time, ask for the time of the next event, and take completions
// then, up to that time. Closed loops: take the next completion with UINT64_MAX, and submit at its time.


#ifndef DRIVEBAY_H
#define DRIVEBAY_H

#include <stdint.h>

// Number of stages of a completion.
#define DRIVEBAY_STAGES 10

// Status of a completion: data could not be read after all retries.
#define DRIVEBAY_MEDIA_ERROR 1

// Status of a completion: too many blocks have failed, so the drive is read-only.
#define DRIVEBAY_READ_ONLY 2

// Status of a completion: the drive has no free flash left.
#define DRIVEBAY_NO_SPACE 3

// Kind of a request.
typedef enum drivebay_op {
  // Read.
  DRIVEBAY_OP_READ,
  // Write; complete when the data is in the write buffer.
  DRIVEBAY_OP_WRITE,
  // Write with Force Unit Access; complete when the data is on flash.
  DRIVEBAY_OP_WRITE_FUA,
  // Dataset Management, Deallocate (TRIM).
  DRIVEBAY_OP_TRIM,
  // Write Zeroes.
  DRIVEBAY_OP_WRITE_ZEROES,
  // Flush; `lba` and `sectors` are ignored.
  DRIVEBAY_OP_FLUSH,
} drivebay_op;

// A virtual drive. One thread at a time may use it; several drives are independent.
typedef struct drivebay_drive drivebay_drive;

// Request of the host.
typedef struct drivebay_request {
  // Time of submission in ns, not before `drivebay_now`.
  uint64_t at_ns;
  // First sector of 512 bytes.
  uint64_t lba;
  // Number of sectors: 1 to 2097152; more for a trim.
  uint32_t sectors;
  // Kind: a `drivebay_op`.
  uint32_t op;
  // Identifier of the request, for its completion.
  uint32_t tag;
  // Placement handle of a write (Flexible Data Placement); 0 without.
  uint32_t handle;
} drivebay_request;

// Completion of a request.
typedef struct drivebay_completion {
  // Time in ns at which the host sees the completion.
  uint64_t done_ns;
  // Identifier of the request.
  uint32_t tag;
  // 0 if the request succeeded; else the reason.
  uint32_t status;
  // Parts of the latency in ns: host, link, firmware, buffer, map, die, channel, nand, gc,
  // throttle. Their sum is the latency.
  uint64_t stage_ns[DRIVEBAY_STAGES];
} drivebay_completion;

// Counters since the drive was new.
typedef struct drivebay_counters {
  // Pages of 4 KiB that the host wrote.
  uint64_t host_pages;
  // Pages of 4 KiB programmed, including copies of garbage collection. Write amplification is
  // `placed_pages / host_pages`.
  uint64_t placed_pages;
  // Superblocks erased.
  uint64_t erases;
  // Energy in nJ.
  uint64_t energy_nj;
  // Temperature in degrees Celsius.
  double temperature_c;
} drivebay_counters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates a drive, or returns NULL: see `drivebay_error`.
//
// `profile` is the path of a whole profile, or its text in TOML. `state` is the path of a state of
// such a drive, by `drivebay_save` or by Python's `drivebay.Device.save`; NULL for a new, empty
// drive, whose random values come from `seed`.
struct drivebay_drive *drivebay_create(const char *profile, const char *state, uint64_t seed);

// Destroys a drive. NULL is allowed.
void drivebay_destroy(struct drivebay_drive *drive);

// Saves the state to a file, for `drivebay_create`. All completions must have been taken. Returns
// 0, or -1 on an error.
int drivebay_save(struct drivebay_drive *drive, const char *path);

// Number of sectors of 512 bytes; 0 on an error.
uint64_t drivebay_capacity(struct drivebay_drive *drive);

// Time in ns before which nothing can be submitted any more: that of the last call, or of the
// last completion.
uint64_t drivebay_now(struct drivebay_drive *drive);

// Submits a request. Returns 0, or -1 on an error: then the request does not exist.
int drivebay_submit(struct drivebay_drive *drive, const struct drivebay_request *request);

// Takes the next completion up to `until_ns`, before which the host submits nothing more unless a
// completion comes first; UINT64_MAX waits for it. Returns 1 and the completion; 0 if there is
// none; -1 on an error.
int drivebay_next_completion(struct drivebay_drive *drive,
                             uint64_t until_ns,
                             struct drivebay_completion *completion);

// Time in ns at which to call `drivebay_next_completion` next if nothing is submitted before it:
// a completion is due, or one becomes known. UINT64_MAX if nothing is outstanding.
uint64_t drivebay_next_event(struct drivebay_drive *drive);

// Advances the drive to a time before which the host submits nothing more. A drive without
// requests is idle until then: it cools, and may collect garbage. Returns 0, or -1 on an error.
int drivebay_advance(struct drivebay_drive *drive, uint64_t until_ns);

// Reads the counters. Returns 0, or -1 on an error.
int drivebay_read_counters(struct drivebay_drive *drive, struct drivebay_counters *counters);

// Text of this thread's last error, with a hint on a second line; valid until its next one.
const char *drivebay_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* DRIVEBAY_H */
