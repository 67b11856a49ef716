//! The controller: cores and data paths.
//!
//! Sources: the profile's `[controller]` and `[gc]`. A throttled controller has a slower clock:
//! what that adds to a command's work, and to its waiting for the cores, is booked as throttling.
//! Where a profile says so, the flash core's times vary (`controller.service_cv`): a part of each
//! is drawn from the exponential distribution, the usual one of queueing theory. guess: no maker
//! has published its own. Left out: that times of the host core vary.

use drivebay_units::{Nanos, mix_upper};

use crate::firmware::ftl_core::FtlCore;
use crate::persist::{StateError, persist};
use crate::profile::{Costs, SHARE_BITS, Spec, transfer};
use crate::stage::{Stage, Stages};
use crate::timeline::Fifo;

/// Cores and data paths.
pub struct Controller {
    /// At the present clock.
    costs: Costs,
    /// At full clock.
    nominal: Costs,
    host_core: Fifo,
    /// From the link into the write buffer.
    write_path: Fifo,
    /// From flash to the link, or the limit that heat sets.
    read_path: Fifo,
    ftl_core: FtlCore,
}

persist!(Controller: host_core, write_path, read_path, ftl_core; given: costs, nominal);

impl Controller {
    pub fn new(spec: &Spec) -> Controller {
        let nominal = spec.throttle[0].costs;
        Controller {
            costs: nominal,
            nominal,
            host_core: Fifo::default(),
            write_path: Fifo::default(),
            read_path: Fifo::default(),
            ftl_core: FtlCore::new(),
        }
    }

    /// Forgets all commands; work so far stays counted, and nothing is done before `ready`.
    pub fn power_cut(&mut self, spec: &Spec, ready: Nanos) {
        let mut ftl_core = std::mem::replace(&mut self.ftl_core, FtlCore::new());
        ftl_core.power_cut();
        ftl_core.wait_until(ready);
        *self = Controller { costs: self.costs, ftl_core, ..Controller::new(spec) };
    }

    pub fn check(&self) -> Result<(), StateError> {
        self.ftl_core.check()
    }

    /// Costs of work at the present clock.
    #[inline(always)]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    #[inline(always)]
    pub fn ftl_core(&mut self) -> &mut FtlCore {
        &mut self.ftl_core
    }

    /// Nanoseconds that the flash core has worked so far, and the end of its work.
    pub fn work(&self) -> (u64, Nanos) {
        (self.ftl_core.busy_ns(), self.ftl_core.free_at())
    }

    /// Time when the host core can take another command.
    #[inline(always)]
    pub fn host_core_free_at(&self) -> Nanos {
        self.host_core.free_at()
    }

    /// Passes a command through the host core.
    #[inline(always)]
    pub fn run_host_core(&mut self, from: Nanos, stages: &mut Stages) -> Nanos {
        let (_, end) = self.host_core.reserve(from, self.costs.host_core);
        self.book(Stage::Firmware, end.since(from), stages);
        end
    }

    /// Passes a command through the flash core, which costs `cost`.
    #[inline(always)]
    pub fn run_ftl_core(
        &mut self,
        from: Nanos,
        cost: impl Fn(&Costs) -> Nanos,
        stages: &mut Stages,
    ) -> Nanos {
        let spent = cost(&self.costs);
        if self.costs.added_by_clock | self.costs.variation != 0 {
            return self.take_ftl_core(from, self.draw(from, spent), stages);
        }
        let pass = self.ftl_core.run(from, spent);
        stages.add(Stage::Firmware, pass.queued.after(spent));
        stages.add(Stage::Gc, pass.gc);
        pass.end
    }

    /// Takes the flash core for exactly so long, at any clock.
    #[cold]
    #[inline(never)]
    pub fn take_ftl_core(&mut self, from: Nanos, len: Nanos, stages: &mut Stages) -> Nanos {
        let pass = self.ftl_core.run(from, len);
        self.book(Stage::Firmware, pass.queued.after(len), stages);
        self.book(Stage::Gc, pass.gc, stages);
        pass.end
    }

    /// Time of a command on the flash core, `mean` on average. A draw is a hash of the time and of
    /// all work so far.
    #[cold]
    fn draw(&self, from: Nanos, mean: Nanos) -> Nanos {
        let varies = (mean.0 * self.costs.variation) >> SHARE_BITS;
        let key = from.0 ^ self.ftl_core.busy_ns().rotate_left(32);
        let mixed = mix_upper(key);
        let drawn = (varies * exponential(mixed ^ (mixed >> 32))) >> SHARE_BITS;
        Nanos(mean.0 - varies + drawn)
    }

    /// Books time that the cores' clock sets, their work or waiting for it: the time at full clock
    /// under `stage`, the rest at the present clock as throttling. A wait that began at another
    /// clock is booked by the present one.
    #[inline(always)]
    pub fn book(&self, stage: Stage, len: Nanos, stages: &mut Stages) {
        let added = Nanos((len.0 * self.costs.added_by_clock) >> SHARE_BITS);
        stages.add(stage, len.since(added));
        stages.add(Stage::Throttle, added);
    }

    /// `bytes` of a write pass the write path as they come over the link, the first at `first`, the
    /// last at `arrived`; returns when all are in.
    #[inline(always)]
    pub fn receive(
        &mut self,
        first: Nanos,
        arrived: Nanos,
        bytes: u64,
        stages: &mut Stages,
    ) -> Nanos {
        let len = transfer(bytes, self.costs.write_path_fs_per_byte);
        let nominal_len = transfer(bytes, self.nominal.write_path_fs_per_byte);
        let accepted = self.write_path.reserve(first, len).1.max(arrived);
        let wait = accepted.since(arrived);
        let throttled =
            if len > nominal_len { wait.since_or_zero(nominal_len) } else { Nanos::ZERO };
        stages.add(Stage::Throttle, throttled);
        stages.add(Stage::Buffer, wait.since(throttled));
        accepted
    }

    /// Time when the data path to the link, or the limit that heat sets, lets a read go on.
    #[inline(always)]
    pub fn admit_read(&mut self, from: Nanos, bytes: u64, stages: &mut Stages) -> Nanos {
        let (limit, nominal) =
            (self.costs.read_limit_fs_per_byte, self.nominal.read_limit_fs_per_byte);
        if limit == 0 {
            return from;
        }
        let (begin, _) = self.read_path.reserve(from, transfer(bytes, limit));
        let stage = if limit > nominal { Stage::Throttle } else { Stage::Firmware };
        stages.add(stage, begin.since(from));
        begin
    }
}

/// The exponential distribution with a mean of 2 to the power of [`SHARE_BITS`]: minus the
/// logarithm of a number between 0 and 1, the bits of which these are. In whole numbers, so that it
/// is the same on every machine.
fn exponential(bits: u64) -> u64 {
    const LN_2: u64 = 45_426;
    let zeros = u64::from((bits | 1).leading_zeros());
    // The binary logarithm of a number from 1 to 2, in units of 2 to the power of -31, bit by bit:
    // the square is 2 or more if the next bit is set.
    let mut number = ((bits | 1) << zeros) >> 32;
    let mut log2 = 0;
    for _ in 0..SHARE_BITS {
        number = (number * number) >> 31;
        let bit = number >> 32;
        log2 = log2 << 1 | bit;
        number >>= bit;
    }
    ((((zeros + 1) << SHARE_BITS) - log2) * LN_2) >> SHARE_BITS
}
