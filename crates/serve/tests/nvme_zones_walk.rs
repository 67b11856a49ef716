//! Random walk over zones, compared with a simple model of them; over TCP, with a host of our own.

use drivebay_serve::{Control as _, PowerCutLoss};
use drivebay_units::Rng;
use drivebay_wire::nvme::{Sqe, Status, ZoneAction};

use crate::nvme_host::{self, ZONED_ACTIVE, ZONED_OPEN};
use crate::nvme_zones::{
    CAPACITY, CLOSED, EMPTY, EXPLICIT, FULL, IMPLICIT, SIZE, WRITE, act, append, block, drive,
    states, versions, zones,
};

/// Simple model of zones, which searches all of them.
struct Naive {
    zones: Vec<(u8, u64)>,
    /// Written content of each block of a zone, and the number of blocks that a flush has made
    /// durable.
    blocks: Vec<Vec<u64>>,
    safe: Vec<usize>,
}

impl Naive {
    fn new(count: usize) -> Naive {
        Naive {
            zones: vec![(EMPTY, 0); count],
            blocks: vec![Vec::new(); count],
            safe: vec![0; count],
        }
    }

    fn count(&self, which: &[u8]) -> u32 {
        self.zones.iter().filter(|(state, _)| which.contains(state)).count() as u32
    }

    fn open(&mut self, zone: usize, to: u8) -> Status {
        let state = self.zones[zone].0;
        if state == EMPTY && self.count(&[IMPLICIT, EXPLICIT, CLOSED]) == ZONED_ACTIVE {
            return Status::TOO_MANY_ACTIVE_ZONES;
        }
        if ![IMPLICIT, EXPLICIT].contains(&state) && self.count(&[IMPLICIT, EXPLICIT]) == ZONED_OPEN
        {
            let Some(first) = self.zones.iter().position(|(state, _)| *state == IMPLICIT) else {
                return Status::TOO_MANY_OPEN_ZONES;
            };
            self.zones[first].0 = CLOSED;
        }
        if state != EXPLICIT {
            self.zones[zone].0 = to;
        }
        Status::SUCCESS
    }

    fn write(&mut self, zone: usize, at: u64, blocks: u64, version: u64) -> Status {
        let (state, written) = self.zones[zone];
        if at + blocks > CAPACITY {
            return if state == FULL && at < CAPACITY && at + blocks <= CAPACITY {
                Status::ZONE_IS_FULL
            } else {
                Status::ZONE_BOUNDARY_ERROR
            };
        }
        if state == FULL {
            return Status::ZONE_IS_FULL;
        }
        if at != written {
            return Status::ZONE_INVALID_WRITE;
        }
        let opened = self.open(zone, IMPLICIT);
        if opened == Status::SUCCESS {
            self.zones[zone].1 += blocks;
            self.blocks[zone].extend((0..blocks).map(|_| version));
            if self.zones[zone].1 == CAPACITY {
                self.zones[zone].0 = FULL;
            }
        }
        opened
    }

    fn manage(&mut self, zone: usize, action: ZoneAction) -> Status {
        let state = self.zones[zone].0;
        match action {
            ZoneAction::Open if state == FULL => return Status::INVALID_ZONE_STATE_TRANSITION,
            ZoneAction::Open => return self.open(zone, EXPLICIT),
            ZoneAction::Close if [IMPLICIT, EXPLICIT].contains(&state) => {
                self.zones[zone].0 = CLOSED
            }
            ZoneAction::Close if state == CLOSED => {}
            ZoneAction::Finish => self.zones[zone] = (FULL, CAPACITY),
            ZoneAction::Reset => {
                (self.zones[zone], self.safe[zone]) = ((EMPTY, 0), 0);
                self.blocks[zone].clear();
            }
            ZoneAction::Close | ZoneAction::Offline | ZoneAction::FlushArea => {
                return Status::INVALID_ZONE_STATE_TRANSITION;
            }
        }
        Status::SUCCESS
    }

    fn flush(&mut self) {
        self.safe = self.blocks.iter().map(Vec::len).collect();
    }

    /// Compares after a power cut: durable blocks remain, and all remaining blocks are before the
    /// write pointer.
    fn recover(&mut self, found: &[(u8, u64)], read: &mut dyn FnMut(usize) -> Vec<u64>) -> u64 {
        let mut lost = 0;
        for (zone, &(state, written)) in found.iter().enumerate() {
            let (was, before) = self.zones[zone];
            let blocks = &mut self.blocks[zone];
            let on_media = if state == FULL { blocks.len() as u64 } else { written };
            assert!(on_media <= before && on_media >= self.safe[zone] as u64, "zone {zone}");
            lost += before - written;
            let expected: &[u8] = match was {
                EMPTY => &[EMPTY],
                FULL => &[FULL, CLOSED, EMPTY],
                _ if written == 0 => &[EMPTY],
                _ => &[CLOSED],
            };
            assert!(expected.contains(&state), "zone {zone}: {was} is {state}");
            let mut now = read(zone);
            if state == FULL {
                // A finished zone: blocks that were not durable may be zeros.
                let mut kept = now.iter().zip(&*blocks).take_while(|(now, was)| now == was).count();
                kept = kept.max(self.safe[zone]);
                blocks.truncate(kept);
            } else {
                blocks.truncate(written as usize);
            }
            let rest = now.split_off(blocks.len());
            assert_eq!(now, *blocks, "zone {zone}");
            assert!(
                rest.iter().all(|&version| version == 0),
                "zone {zone} behind its write pointer"
            );
            self.zones[zone] = (state, written);
        }
        self.flush();
        lost
    }
}

#[test]
fn whatever_is_asked_of_zones_they_are_as_the_book_has_them() {
    for loss in [PowerCutLoss::All, PowerCutLoss::Random, PowerCutLoss::Unflushed] {
        let lost: u64 = (1..=8).map(|seed| walk(seed, loss)).sum();
        assert!(lost > 0, "{loss:?}: a cut takes something");
    }
}

/// Random walk with power cuts; returns the number of lost blocks.
fn walk(seed: u64, loss: PowerCutLoss) -> u64 {
    let (mut rig, _admin, mut host) = drive();
    rig.engine.allow_power_cuts(None, loss);
    let mut rng = Rng::new(seed).fork("zones");
    let mut naive = Naive::new(zones(&rig) as usize);
    let mut lost = 0;
    for version in 1..400 {
        // Few zones, so that they reach their limits.
        let zone = rng.below(8) as usize;
        let start = zone as u64 * SIZE;
        let written = naive.zones[zone].1;
        let blocks = 1 + rng.below(32);
        let status = match rng.below(16) {
            0..=4 => {
                let at = if rng.below(8) == 0 { rng.below(SIZE - blocks) } else { written };
                let at = at.min(SIZE - blocks);
                let data = block(version).repeat(blocks as usize);
                let fua = u32::from(rng.below(8) == 0) << 30;
                let sqe = nvme_host::io(WRITE, start + at, blocks as u32);
                let sqe = Sqe { cdw12: (sqe.cdw12.get() | fua).into(), ..sqe };
                let found = rig.io(&mut host, sqe, data.len() as u32, &data).0;
                let expected = naive.write(zone, at, blocks, version);
                if fua != 0 && expected == Status::SUCCESS {
                    naive.safe[zone] = naive.blocks[zone].len();
                }
                (found, expected)
            }
            5..=7 => {
                let (found, place) = append(&mut rig, &mut host, start, blocks as u32, version);
                let expected = if naive.zones[zone].0 == FULL {
                    Status::ZONE_IS_FULL
                } else {
                    naive.write(zone, written, blocks, version)
                };
                assert!(found != Status::SUCCESS || place == start + written);
                (found, expected)
            }
            8..=12 => {
                let actions = [
                    ZoneAction::Open,
                    ZoneAction::Close,
                    ZoneAction::Finish,
                    ZoneAction::Reset,
                    ZoneAction::Offline,
                ];
                let action = actions[rng.below(5) as usize];
                (act(&mut rig, &mut host, zone as u64, action), naive.manage(zone, action))
            }
            13 => {
                naive.flush();
                let flush = Sqe { opcode: 0, nsid: 1.into(), ..Sqe::default() };
                (rig.io(&mut host, flush, 0, &[]).0, Status::SUCCESS)
            }
            14 => {
                let at = rng.below(CAPACITY - 8);
                let mut expected = naive.blocks[zone].clone();
                expected.resize(CAPACITY as usize, 0);
                let found = versions(&mut rig, &mut host, start + at, 8);
                assert_eq!(found, expected[at as usize..][..8]);
                continue;
            }
            _ => {
                rig.engine.power_cut().expect("a store in memory");
                let found = states(&mut rig, &mut host);
                let mut read = |zone: usize| {
                    let start = zone as u64 * SIZE;
                    (0..CAPACITY / 32)
                        .flat_map(|piece| versions(&mut rig, &mut host, start + piece * 32, 32))
                        .collect()
                };
                lost += naive.recover(&found, &mut read);
                continue;
            }
        };
        assert_eq!(status.0.without_dnr(), status.1, "seed {seed}, step {version}, zone {zone}");
        assert_eq!(states(&mut rig, &mut host), naive.zones, "seed {seed}, step {version}");
    }
    lost
}
