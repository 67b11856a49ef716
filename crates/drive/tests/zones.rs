//! Zones compared with a naive model of the zone state machine (NVMe Zoned Namespace command set
//! 1.1), and their costs.

use crate::support::{Profile, at_depth, one_by_one, repeated};
use drivebay_drive::{Device, DeviceError, Io, Op, Stage, Zone, ZoneProblem, ZoneState};
use drivebay_units::{Lpn, Nanos, Rng};

const PAGES: u64 = 64;
const ZONES: u64 = 20;
/// Sectors of a zone of one superblock.
const ZONE: u64 = PAGES * 8;

fn plain() -> Profile {
    Profile::sm951_nvme().one_die(32, PAGES as u32, (ZONES * PAGES) as u32)
}

fn profile() -> Profile {
    plain().zoned(1, 4, 3)
}

/// Pages of a random write area, and step of the write pointer in it.
const AREA: u64 = 8;
const STEP: u64 = 2;

/// With random write areas for two zones.
fn with_areas() -> Profile {
    profile()
        .with("write_buffer.power_loss_protection", true)
        .with("zns.zrwa.zones", 2)
        .with("zns.zrwa.size_kib", 4 * AREA as i64)
        .with("zns.zrwa.granularity_kib", 4 * STEP as i64)
}

/// Two planes on each of four dies: rows of eight flash pages.
fn wide() -> Profile {
    Profile::sm951_nvme().four_dies(8 * 2_048).zoned(1, 4, 4)
}

fn zone_op(op: Op, zone: u64) -> Io {
    Io::new(op, zone * ZONE, 0)
}

fn write(zone: u64, page: u64, pages: u32) -> Io {
    Io::new(Op::Write, zone * ZONE + page * 8, pages * 8)
}

/// Zones by the specification; each search looks at all of them.
struct Naive {
    zones: Vec<(ZoneState, u64)>,
    /// A finish under way keeps its zone among the active ones.
    finishing: Vec<bool>,
    /// End of the data in the random write area, by zone; `None` without an area.
    areas: Vec<Option<u64>>,
    active_max: usize,
    open_max: usize,
}

impl Naive {
    fn new() -> Naive {
        let zones = vec![(ZoneState::Empty, 0); ZONES as usize];
        let (finishing, areas) = (vec![false; ZONES as usize], vec![None; ZONES as usize]);
        Naive { zones, finishing, areas, active_max: 4, open_max: 3 }
    }

    fn count(&self, which: impl Fn(ZoneState) -> bool) -> usize {
        self.zones.iter().filter(|(state, _)| which(*state)).count()
    }

    fn open(&mut self, zone: usize, to: ZoneState) -> Result<(), ZoneProblem> {
        let state = self.zones[zone].0;
        let finishing = self.finishing.iter().filter(|&&finishing| finishing).count();
        let active = finishing + self.count(|state| state.is_open() || state == ZoneState::Closed);
        if state == ZoneState::Empty && active == self.active_max {
            return Err(ZoneProblem::TooManyActive);
        }
        if !state.is_open() && self.count(ZoneState::is_open) == self.open_max {
            let implicit = |(state, _): &(ZoneState, u64)| *state == ZoneState::ImplicitlyOpen;
            let first = self.zones.iter().position(implicit).ok_or(ZoneProblem::TooManyOpen)?;
            self.zones[first].0 = ZoneState::Closed;
        }
        if state != ZoneState::ExplicitlyOpen {
            self.zones[zone].0 = to;
        }
        Ok(())
    }

    /// Address at which a command ends up.
    fn take(&mut self, io: Io) -> Result<u64, ZoneProblem> {
        let (zone, at) = ((io.lba / ZONE) as usize, io.lba % ZONE);
        let (state, written) = self.zones[zone];
        let sectors = u64::from(io.sectors);
        if io.op == Op::Append && at != 0 {
            return Err(ZoneProblem::NotItsStart);
        }
        let unusable = match state {
            ZoneState::ReadOnly => Some(ZoneProblem::ReadOnly),
            ZoneState::Offline => Some(ZoneProblem::Offline),
            _ => None,
        };
        if let Some(area) = self.areas[zone]
            && matches!(io.op, Op::Write | Op::WriteFua | Op::Append)
        {
            return self.take_in_area(io, zone, area);
        }
        match io.op {
            Op::Read if state == ZoneState::Offline => return Err(ZoneProblem::Offline),
            Op::Read | Op::Flush => return Ok(io.lba),
            Op::Trim | Op::WriteZeroes => return Err(ZoneProblem::NotZoned),
            Op::ZoneOffline if unusable.is_some() => self.zones[zone].0 = ZoneState::Offline,
            Op::ZoneOffline => return Err(ZoneProblem::Transition),
            op if unusable.is_some() && op.is_zone_management() => {
                return Err(ZoneProblem::Transition);
            }
            _ if unusable.is_some() => return Err(unusable.expect("just seen")),
            Op::ZoneOpenZrwa => {
                let areas = self.areas.iter().flatten().count();
                if state == ZoneState::Full {
                    return Err(ZoneProblem::Transition);
                }
                let is_new = self.areas[zone].is_none();
                if is_new && (!written.is_multiple_of(STEP * 8) || areas == 2) {
                    return Err(ZoneProblem::NoZrwa);
                }
                self.open(zone, ZoneState::ExplicitlyOpen)?;
                self.areas[zone] = self.areas[zone].or(Some(0));
            }
            Op::ZrwaFlush => {
                let Some(reached) = self.areas[zone] else { return Err(ZoneProblem::Operation) };
                let to = at + 8;
                let allowed = (1..=AREA / STEP).map(|steps| written + steps * STEP * 8);
                if !allowed.into_iter().any(|end| end == to) {
                    return Err(ZoneProblem::FlushRange);
                }
                self.open(zone, ZoneState::ImplicitlyOpen)?;
                self.move_pointer(zone, to, reached.max(to));
            }
            Op::Write | Op::WriteFua | Op::Append => {
                let at = if io.op == Op::Append { written } else { at };
                if state == ZoneState::Full {
                    return Err(ZoneProblem::Full);
                }
                if at + sectors > ZONE {
                    return Err(ZoneProblem::Boundary);
                }
                if at != written {
                    return Err(ZoneProblem::InvalidWrite);
                }
                self.open(zone, ZoneState::ImplicitlyOpen)?;
                self.zones[zone].1 += sectors;
                if self.zones[zone].1 == ZONE {
                    self.zones[zone].0 = ZoneState::Full;
                }
                return Ok(zone as u64 * ZONE + at);
            }
            Op::ZoneOpen if state == ZoneState::Full => return Err(ZoneProblem::Transition),
            Op::ZoneOpen => self.open(zone, ZoneState::ExplicitlyOpen)?,
            Op::ZoneClose if state.is_open() => self.zones[zone].0 = ZoneState::Closed,
            Op::ZoneClose if state != ZoneState::Closed => return Err(ZoneProblem::Transition),
            Op::ZoneFinish => {
                self.finishing[zone] |= !matches!(state, ZoneState::Empty | ZoneState::Full);
                let held = self.areas[zone].take().unwrap_or(0);
                self.zones[zone] = (ZoneState::Full, written.max(held));
            }
            Op::ZoneReset => {
                self.areas[zone] = None;
                (self.zones[zone], self.finishing[zone]) = ((ZoneState::Empty, 0), false);
            }
            _ => {}
        }
        Ok(io.lba)
    }

    /// A write of a zone with a random write area, in which there is data up to `reached`.
    fn take_in_area(&mut self, io: Io, zone: usize, reached: u64) -> Result<u64, ZoneProblem> {
        let (at, written) = (io.lba % ZONE, self.zones[zone].1);
        let end = at + u64::from(io.sectors);
        if io.op == Op::Append {
            return Err(ZoneProblem::Operation);
        }
        if end > ZONE {
            return Err(ZoneProblem::Boundary);
        }
        if at < written || end > written + 2 * AREA * 8 {
            return Err(ZoneProblem::InvalidWrite);
        }
        self.open(zone, ZoneState::ImplicitlyOpen)?;
        let mut pointer = written;
        while end > pointer + AREA * 8 {
            pointer += STEP * 8;
        }
        self.move_pointer(zone, pointer, reached.max(end));
        Ok(io.lba)
    }

    fn move_pointer(&mut self, zone: usize, to: u64, reached: u64) {
        (self.zones[zone].1, self.areas[zone]) = (to, Some(reached));
        if to == ZONE {
            (self.zones[zone].0, self.areas[zone]) = (ZoneState::Full, None);
        }
    }

    fn served(&mut self, io: Io) {
        // Without a stream it was another finish of the same zone, or was ended by a reset.
        if io.op == Op::ZoneFinish && io.handle != u8::MAX {
            self.finishing[(io.lba / ZONE) as usize] = false;
        }
    }

    fn power_cut(&mut self) {
        self.finishing.fill(false);
        for ((state, written), area) in self.zones.iter_mut().zip(&mut self.areas) {
            if !matches!(state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline) {
                let holds = *written > 0 || area.is_some_and(|reached| reached > 0);
                *state = if holds { ZoneState::Closed } else { ZoneState::Empty };
            }
            if *state == ZoneState::Empty {
                *area = None;
            }
        }
    }
}

fn seen(device: &Device) -> Vec<(ZoneState, u64)> {
    device.zones().iter().map(|zone| (zone.state, zone.written)).collect()
}

fn mapped(device: &Device, zone: u64, pages: std::ops::Range<u64>) -> usize {
    let first = zone * PAGES;
    let is_mapped = |page: &u64| device.ftl().look_up(Lpn((first + page) as u32)).is_some();
    pages.filter(is_mapped).count()
}

/// Checks that exactly the data below the write pointers exists.
fn check_data(device: &Device) {
    for (index, Zone { written, .. }) in (0..).zip(device.zones()) {
        assert_eq!(mapped(device, index, 0..PAGES) as u64, written / 8, "zone {index}");
        assert_eq!(mapped(device, index, written / 8..PAGES), 0, "zone {index}");
    }
    device.ftl().check_invariants();
}

fn any_io(rng: &mut Rng, naive: &Naive) -> Io {
    let zone = rng.below(ZONES / 2);
    let written = naive.zones[zone as usize].1 / 8;
    let pages = 1 + rng.below(24) as u32;
    let at = if rng.below(8) == 0 { rng.below(PAGES) } else { written };
    let op = [Op::Write, Op::Append, Op::Write, Op::Append, Op::WriteFua, Op::ZoneReset]
        .into_iter()
        .chain([Op::ZoneFinish, Op::ZoneOpen, Op::ZoneClose, Op::Read, Op::Flush, Op::Trim])
        .nth(rng.below(12) as usize)
        .expect("twelve");
    let (op, at) = match rng.below(9) {
        0 => ([Op::ZoneOpenZrwa, Op::ZoneOffline][rng.below(2) as usize], at),
        1 => (Op::ZrwaFlush, (written + STEP * (1 + rng.below(AREA / STEP)) - 1).min(PAGES - 1)),
        2 => (Op::Write, (written + rng.below(2 * AREA)).min(PAGES - 1)),
        _ => (op, at),
    };
    match op {
        Op::ZrwaFlush => Io { op, ..write(zone, at, 0) },
        Op::Append => Io { op, ..write(zone, if at == written { 0 } else { at }, pages) },
        op if op.is_zone_management() => zone_op(op, zone),
        Op::Flush => Io::new(op, 0, 0),
        op => Io { op, ..write(zone, at.min(PAGES - 1), pages) },
    }
}

#[test]
fn zones_are_those_of_a_naive_model() {
    let protected = with_areas();
    for seed in 0..u64::from(repeated(12)) {
        let mut device = protected.device();
        let mut rng = Rng::new(seed);
        let mut naive = Naive::new();
        for step in 0..3_000 {
            let io = any_io(&mut rng, &naive);
            let expected = naive.take(io);
            let given = device.submit(device.now(), io).map(|completion| completion.io.lba);
            match (expected, given) {
                (Ok(lba), Ok(at)) => {
                    assert_eq!(at, lba, "{io:?}");
                    naive.finishing.fill(false);
                }
                (Err(expected), Err(DeviceError::Zone { problem, .. })) => {
                    assert_eq!(problem, expected, "{io:?}");
                }
                (expected, given) => panic!("{io:?}: {given:?}, by the book {expected:?}"),
            }
            if step % 500 == 250 {
                let state = [ZoneState::ReadOnly, ZoneState::Offline][seed as usize % 2];
                device.fail_zone(step as usize / 500, state);
                (naive.zones[step as usize / 500].0, naive.areas[step as usize / 500]) =
                    (state, None);
            }
            if step % 100 == 99 {
                device.idle_until(device.now().after(Nanos::millis(50)));
                device.power_cut(device.now());
                naive.power_cut();
            }
            assert_eq!(seen(&device), naive.zones, "step {step}: {io:?}");
        }
        check_data(&device);
        let offline = |device: &Device| {
            let zones = device.zones().iter();
            zones.filter(|zone| zone.state == ZoneState::Offline).count()
        };
        let before = offline(&device);
        device.secure_erase();
        let empty = device.zones().iter().filter(|zone| zone.state == ZoneState::Empty).count();
        assert_eq!((offline(&device), empty + before), (before, ZONES as usize));
    }
}

/// Without capacitors a write pointer goes back to the data on flash: not after a flush, and
/// without a hole before it.
#[test]
fn a_power_cut_takes_write_pointers_back_to_what_is_on_flash() {
    let mut lost = 0;
    for seed in 0..u64::from(repeated(60)) {
        let mut device = profile().device();
        let mut rng = Rng::new(seed);
        for _ in 0..6 {
            let fill = |device: &mut Device, rng: &mut Rng| {
                for _ in 0..rng.below(200) {
                    let zone = rng.below(3);
                    let written = device.zones()[zone as usize].written / 8;
                    let io = match written {
                        PAGES => zone_op(Op::ZoneReset, zone),
                        _ => write(zone, written, (1 + rng.below(PAGES - written)) as u32),
                    };
                    device.submit(device.now(), io).expect("at the write pointer");
                }
            };
            fill(&mut device, &mut rng);
            let flushed = device.submit(device.now(), Io::new(Op::Flush, 0, 0)).expect("a flush");
            let safe = seen(&device);
            let appended = rng.below(40) as u32;
            if safe[3].1 / 8 + u64::from(appended) < PAGES && appended > 0 {
                let io = Io { op: Op::Append, ..write(3, 0, appended) };
                device.submit(flushed.done, io).expect("room in the zone");
            }
            let before = seen(&device);
            device.power_cut(device.now().max(flushed.done));
            check_data(&device);
            for (zone, (after, safe)) in seen(&device).iter().zip(&safe).enumerate() {
                assert!(after.1 >= safe.1 && after.1 <= before[zone].1, "{after:?} {safe:?}");
                assert!(!after.0.is_open());
                lost += before[zone].1 - after.1;
            }
        }
    }
    assert!(lost > 0, "some cut loses something");
}

/// Commands overlap, resets and finishes run in steps alongside others, and the power is cut in
/// between.
#[test]
fn zones_are_those_of_a_naive_model_at_depth_and_through_cuts() {
    let (mut cuts, mut shrunk) = (0, 0);
    for seed in 0..u64::from(repeated(40)) {
        let protected = seed % 2 == 0;
        let mut device = if protected { with_areas() } else { profile() }.device();
        let mut rng = Rng::new(seed);
        let mut naive = Naive::new();
        let (mut now, mut on_their_way) = (Nanos::ZERO, 0);
        for step in 0..1_500 {
            let io = any_io(&mut rng, &naive);
            let has_areas = protected || !matches!(io.op, Op::ZoneOpenZrwa | Op::ZrwaFlush);
            let expected = has_areas && naive.take(io).is_ok();
            let accepted = device.accept(now, io, step, Nanos::ZERO);
            assert_eq!(accepted.is_ok(), expected, "step {step}: {io:?}: {accepted:?}");
            on_their_way += u32::from(expected);
            assert_eq!(seen(&device), naive.zones, "step {step}: {io:?}");
            now = now.after(Nanos(rng.below(200_000)));
            while on_their_way > 0 && (on_their_way > 16 || device.next_arrival() <= now) {
                let served = device.serve().expect("room");
                on_their_way -= u32::from(served.is_some());
                served.iter().for_each(|served| naive.served(served.io));
            }
            now = now.max(device.now());
            if rng.below(120) == 0 {
                device.power_cut(now);
                (on_their_way, cuts) = (0, cuts + 1);
                check_data(&device);
                let before = naive.zones.clone();
                naive.power_cut();
                for (index, (state, written)) in seen(&device).into_iter().enumerate() {
                    let (was, pointer) = before[index];
                    assert!(written <= pointer, "zone {index}: {written} of {pointer}");
                    let whole = written == pointer && naive.zones[index].0 == state;
                    let back = written < pointer && (was == ZoneState::Full || !state.is_open());
                    assert!(whole || back, "zone {index}: {was:?} {pointer}, {state:?} {written}");
                    shrunk += u32::from(back);
                    naive.zones[index] = (state, written);
                }
            }
        }
        while device.next_arrival() < Nanos(u64::MAX) {
            device.serve().expect("room");
        }
        check_data(&device);
    }
    assert!(cuts > 100 && shrunk > 100, "{cuts} cuts, {shrunk} pointers went back");
}

/// A reset of a zone that a finish is still filling ends the finish, which does not touch the
/// zone's next stream.
#[test]
fn a_reset_ends_a_finish_under_way() {
    let mut device = wide().device();
    one_by_one(&mut device, (0..100).map(|i| write(0, i * 8, 8)));
    let now = device.now();
    device.accept(now, zone_op(Op::ZoneFinish, 0), 1, Nanos::ZERO).expect("a zone");
    assert!(device.serve().expect("room").is_none(), "a step of it");
    device.accept(now, zone_op(Op::ZoneReset, 0), 2, Nanos::ZERO).expect("a zone");
    let next = write(2_048 / PAGES, 0, 8);
    device.accept(now, next, 3, Nanos::ZERO).expect("a zone");
    let mut ended = Vec::new();
    while device.next_arrival() < Nanos(u64::MAX) {
        ended.extend(device.serve().expect("room").map(|done| done.tag));
    }
    ended.sort_unstable();
    assert_eq!(ended, [1, 2, 3]);
    let zones: Vec<_> = seen(&device).into_iter().take(2).collect();
    assert_eq!(zones, [(ZoneState::Empty, 0), (ZoneState::ImplicitlyOpen, 64)]);
    let padded = device.counters().placed_pages - device.counters().host_pages;
    assert!(padded < 2_048 / 2, "{padded} pages of nothing: the finish has ended");
    let rest = (1..256).map(|i| write(2_048 / PAGES, i * 8, 8));
    one_by_one(&mut device, rest);
    assert_eq!((seen(&device)[1].0, device.counters().copied_pages), (ZoneState::Full, 0));
}

#[test]
fn zones_are_filled_and_reset_for_ever_without_a_copy() {
    let mut device = profile().device();
    for round in 0..10 {
        for zone in 0..ZONES {
            let pieces = (0..PAGES).step_by(8).map(|page| write(zone, page, 8));
            one_by_one(&mut device, pieces);
        }
        assert!(device.zones().iter().all(|zone| zone.state == ZoneState::Full), "round {round}");
        one_by_one(&mut device, (0..ZONES).map(|zone| zone_op(Op::ZoneReset, zone)));
    }
    let counters = device.counters();
    assert_eq!((counters.copied_pages, counters.placed_pages), (0, counters.host_pages));
    assert!(counters.erases >= 10 * ZONES - 32, "{}", counters.erases);
    check_data(&device);
}

/// The blocks of a zone that is finished are closed while its last row is programmed: the longer of
/// the two counts.
#[test]
fn a_finish_closes_blocks_beside_the_last_program() {
    let ms = |close_us: f64| {
        let mut device = wide().set("zns.close_us", close_us).device();
        let pages = 4 * 2 * 64 * 4 - 1;
        one_by_one(&mut device, (0..pages).map(|page| write(0, page, 1)));
        device.idle_until(device.now().after(Nanos::secs(1)));
        let begin = device.now();
        one_by_one(&mut device, [zone_op(Op::ZoneFinish, 0)]).since(begin).0 as f64 / 1e6
    };
    let program = ms(0.0);
    assert!(program > 0.3, "{program}");
    assert_eq!(ms(program * 900.0), program, "closing is over before");
    let longer = ms(50_000.0);
    assert!((50.0..50.1).contains(&longer), "{longer}");
}

/// The rest of a zone is padded at the rate of writes; a reset takes longer the more was written.
#[test]
fn a_finish_writes_the_rest_and_a_reset_costs_what_was_written() {
    let zone_pages = 4 * 2 * 64 * 4_u64; // dies, planes, flash pages, pages in each
    let of = |share: u64, op: Op| {
        let mut device = wide().device();
        one_by_one(&mut device, (0..zone_pages / 8 * share / 8).map(|i| write(0, i * 8, 8)));
        device.idle_until(device.now().after(Nanos::secs(1)));
        let begin = device.now();
        let done = one_by_one(&mut device, [zone_op(op, 0)]);
        (done.since(begin).0 as f64 / 1e6, device.counters().placed_pages)
    };
    let whole = {
        let mut device = wide().device();
        let pieces = (0..zone_pages / 8).map(|i| write(0, i * 8, 8));
        at_depth(&mut device, 1, pieces).0 as f64 / 1e6
    };
    for share in [1, 2, 4, 6] {
        let (ms, placed) = of(share, Op::ZoneFinish);
        assert_eq!(placed, zone_pages, "the whole superblock is programmed");
        let expected = whole * (8 - share) as f64 / 8.0;
        assert!((ms / expected - 1.0).abs() < 0.2, "{share}/8: {ms} ms, {expected} expected");
    }
    let gib = (zone_pages << 12) as f64 / (1u64 << 30) as f64;
    for share in [1, 4, 8] {
        let (ms, _) = of(share, Op::ZoneReset);
        let close = if share < 8 { 0.5 } else { 0.0 };
        let expected = 1.0 + 100.0 * gib * share as f64 / 8.0 + close;
        assert!((ms / expected - 1.0).abs() < 0.05, "{share}/8: {ms} ms, {expected} expected");
    }
    let (empty, _) = of(0, Op::ZoneReset);
    assert!(empty < 0.1, "{empty} ms for an empty zone");
    let mut device = wide().device();
    let opened = one_by_one(&mut device, [zone_op(Op::ZoneOpen, 0)]);
    let ms = one_by_one(&mut device, [zone_op(Op::ZoneReset, 0)]).since(opened).0 as f64 / 1e6;
    assert!((ms - 1.0).abs() < 0.05, "{ms} ms for an open zone without data");
}

/// A reset that takes milliseconds lets reads and writes pass between slices, and takes longer for
/// them.
#[test]
fn commands_go_between_the_slices_of_a_reset() {
    let mut device = wide().device();
    let zone_pages = 2_048;
    one_by_one(&mut device, (0..zone_pages / 8).map(|i| write(0, i * 8, 8)));
    let begin = device.now();
    let reset = device.accept(begin, zone_op(Op::ZoneReset, 0), 7, begin).expect("a zone");
    assert!(reset.is_none());
    let (mut now, mut longest, mut next) = (begin, Nanos::ZERO, 0);
    let reset_done = 'all: loop {
        let io = Io { op: Op::Append, ..write(zone_pages / PAGES, 0, 1) };
        let mut completion = device.accept(now, io, 0, now).expect("room");
        while completion.is_none() {
            completion = device.serve().expect("room");
            if let Some(done) = completion.filter(|done| done.tag == 7) {
                break 'all done.done;
            }
        }
        let done = completion.expect("served").done;
        longest = longest.max(done.since(now));
        (now, next) = (done, next + 1);
    };
    assert!(next > 30, "{next} appends beside a reset");
    assert!(longest < Nanos::millis(1), "{longest:?}");
    assert!(reset_done.since(begin) > Nanos::millis(2), "{reset_done:?}");
}

/// Data that is overwritten in a random write area is programmed once, and blocks that a finish or
/// a flush leaves unwritten are padded.
#[test]
fn overwrites_in_a_random_write_area_cost_no_flash() {
    let mut device = with_areas().device();
    one_by_one(&mut device, [zone_op(Op::ZoneOpenZrwa, 0)]);
    one_by_one(&mut device, (0..100).map(|i| write(0, i % AREA, 1)));
    assert_eq!((device.counters().host_pages, device.counters().placed_pages), (100, 0));
    let read = device.submit(device.now(), Io { op: Op::Read, ..write(0, 0, 1) }).expect("a read");
    assert_eq!(read.stages.0[Stage::Nand as usize], 0, "it is in the buffer");
    one_by_one(&mut device, [write(0, AREA, 1)]);
    assert_eq!(device.zones()[0].written, STEP * 8, "as little as leaves the write in the area");
    assert_eq!((mapped(&device, 0, 0..PAGES), device.counters().placed_pages), (2, STEP));
    one_by_one(&mut device, [Io { op: Op::ZrwaFlush, ..write(0, AREA - 1, 0) }]);
    assert_eq!((mapped(&device, 0, 0..PAGES), device.counters().placed_pages), (8, AREA));
    device.power_cut(device.now());
    let Zone { state, written, zrwa, .. } = device.zones()[0];
    assert_eq!((state, written, zrwa), (ZoneState::Closed, AREA * 8, true));
    one_by_one(&mut device, [write(0, AREA + 1, 3), zone_op(Op::ZoneFinish, 0)]);
    assert_eq!((mapped(&device, 0, 0..PAGES), device.counters().placed_pages), (12, PAGES));
    assert_eq!(device.counters().host_pages, 104);
    check_data(&device);
}

/// An erase that fails without spare flash takes an empty zone offline; at the drive's end of
/// life all zones can only be read.
#[test]
fn zones_go_offline_as_blocks_fail_and_are_read_only_at_the_end() {
    let mut device = profile().wearing().set("reliability.block_life_cycles", 60).device();
    let offline = |device: &Device| {
        device.zones().iter().filter(|zone| zone.state == ZoneState::Offline).count()
    };
    let mut rounds = 0;
    while offline(&device) < 6 {
        let zone = (0..ZONES).find(|&zone| device.zones()[zone as usize].state == ZoneState::Empty);
        let zone = zone.expect("some are empty");
        one_by_one(&mut device, [write(zone, 0, PAGES as u32), zone_op(Op::ZoneReset, zone)]);
        rounds += 1;
        assert!(rounds < 100_000, "blocks wear out");
    }
    let lost = device.counters().reliability.retired_superblocks;
    assert!(lost as usize >= offline(&device) && !device.counters().reliability.read_only);
    let zone = device.zones().iter().position(|zone| zone.state == ZoneState::Offline);
    let io = Io { op: Op::Read, ..write(zone.expect("six") as u64, 0, 1) };
    let error = device.submit(device.now(), io).expect_err("offline").to_string();
    assert!(error.contains("the zone is offline"), "{error}");
    check_data(&device);
    let ends = profile()
        .with("health.end_of_life.spare_percent", 8)
        .with("health.end_of_life.writes_mb", 1.0)
        .device();
    let mut device = ends;
    let pieces: Vec<Io> =
        (0..5).flat_map(|zone| (0..8).map(move |i| write(zone, i * 8, 8))).collect();
    let refused = pieces.into_iter().find_map(|io| device.submit(device.now(), io).err());
    assert!(refused.expect("the end").to_string().contains("the zone is read-only"));
    assert!(device.zones().iter().all(|zone| zone.state == ZoneState::ReadOnly));
    one_by_one(&mut device, [Io { op: Op::Read, ..write(0, 0, 1) }, zone_op(Op::ZoneOffline, 0)]);
    assert_eq!(device.zones()[0].state, ZoneState::Offline);
}

/// Appends to one zone may come at any depth, and return their addresses.
#[test]
fn appends_are_told_their_addresses_at_any_depth() {
    let mut device = wide().device();
    let mut addresses = Vec::new();
    let appends = (0..200).map(|_| Io { op: Op::Append, ..write(0, 0, 2) });
    crate::support::closed_loop(&mut device, 16, appends, |done| addresses.push(done.io.lba));
    addresses.sort_unstable();
    assert!(addresses.iter().zip(0..).all(|(&lba, i)| lba == i * 16), "{addresses:?}");
    assert_eq!(addresses.len(), 200);
}

#[test]
fn a_saved_drive_goes_on_with_its_zones() {
    let mut device = profile().device();
    one_by_one(&mut device, [write(0, 0, 10), write(1, 0, 64), zone_op(Op::ZoneOpen, 2)]);
    let now = device.now();
    device.accept(now, zone_op(Op::ZoneFinish, 0), 1, now).expect("a zone");
    device.accept(now, zone_op(Op::ZoneReset, 1), 2, now).expect("a zone");
    let mut saved = Vec::new();
    device.save(&mut saved).expect("memory");
    let mut other =
        Device::restore(profile().spec(), None, &mut saved.as_slice()).expect("the same profile");
    let end = |device: &mut Device| {
        let mut done = Vec::new();
        while device.next_arrival() < Nanos(u64::MAX) {
            done.extend(device.serve().expect("room").map(|done| (done.tag, done.done)));
        }
        (done, seen(device), device.counters())
    };
    assert_eq!(end(&mut other), end(&mut device));
    one_by_one(&mut other, [write(2, 0, 3)]);
}

#[test]
fn what_cannot_be_zoned_is_refused() {
    let refused = |profile: Profile, field: &str, part: &str| {
        let error = profile.checked().expect_err("refused").to_string();
        assert!(error.starts_with(field) && error.contains(part), "{error}");
    };
    refused(plain().zoned(3, 4, 4), "zns.zone_superblocks: 3", "a zone has 1536 sectors");
    refused(plain().zoned(1, 12, 4), "zns.active: 12", "superblocks");
    let area = |key: &str, n: i64| with_areas().with(&format!("zns.zrwa.{key}"), n);
    refused(area("zones", 5), "zns.zrwa.zones: 5", "at most zns.active, 4");
    refused(area("granularity_kib", 12), "zns.zrwa.granularity_kib: 12", "a multiple of 4");
    refused(area("size_kib", 1_024), "zns.zrwa.size_kib: 1024", "at most half of");
    let unsafe_area = with_areas().with("write_buffer.power_loss_protection", false);
    refused(unsafe_area, "zns.zrwa.size_kib: 32", "power_loss_protection");
    refused(profile().with("zns.open", 5), "zns.open: 5", "at most zns.active, 4");
    refused(profile().placed(2, "initial"), "fdp.handles", "zones");
    refused(Profile::sm951().zoned(1, 4, 4), "zns.active: 4", "AHCI");
    let mut device = plain().device();
    let error = device.submit(Nanos::ZERO, zone_op(Op::ZoneReset, 0)).expect_err("no zones");
    assert!(error.to_string().contains("the drive has no zones"), "{error}");
    let append = Io::new(Op::Append, 0, 8);
    assert!(device.submit(Nanos::ZERO, append).is_err());
}
