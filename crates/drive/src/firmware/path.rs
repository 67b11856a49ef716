//! Parts that a request passes after the scheduler besides the media: the cores and the link.

use drivebay_units::Nanos;

use crate::firmware::controller::Controller;
use crate::host::link::Link;
use crate::profile::Costs;
use crate::stage::{Stage, Stages};

/// Cores and link of a request, and the stages to which its time is booked.
pub struct Path<'a> {
    pub controller: &'a mut Controller,
    pub link: &'a mut Link,
    pub stages: &'a mut Stages,
    /// The write buffer fills.
    pub backpressure: bool,
    /// Rest of a command that is done in steps; zero before the first step.
    pub left: Nanos,
}

impl Path<'_> {
    /// Passes a command through the flash core.
    #[inline(always)]
    pub fn run_ftl_core(&mut self, from: Nanos, cost: impl Fn(&Costs) -> Nanos) -> Nanos {
        self.controller.run_ftl_core(from, cost, self.stages)
    }

    /// Books the time from `from` to `until`, which it returns.
    #[inline(always)]
    pub fn book(&mut self, stage: Stage, from: Nanos, until: Nanos) -> Nanos {
        self.stages.add(stage, until.since(from));
        until
    }

    /// Books the waits of an access: for the die, in the array, for and on the channel.
    #[inline(always)]
    pub fn add_parts(&mut self, [die, array, channel]: [Nanos; 3]) {
        self.stages.add(Stage::Die, die);
        self.stages.add(Stage::Nand, array);
        self.stages.add(Stage::Channel, channel);
    }
}
