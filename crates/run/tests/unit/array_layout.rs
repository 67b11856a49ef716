//! Unit tests of `array/layout.rs`, with access to its private items.

use std::collections::HashSet;

use drivebay_units::Rng;

use super::*;

const LEVELS: [(Level, usize); 6] = [
    (Level::Raid0, 3),
    (Level::Raid1, 3),
    (Level::Raid10, 6),
    (Level::Raid5, 3),
    (Level::Raid5, 5),
    (Level::Raid6, 6),
];

fn layout((level, members): (Level, usize)) -> Layout {
    Layout { level, members, chunk: 16 }
}

fn planned(layout: &Layout, io: Io, standing: &Standing) -> Plan {
    let mut plan = Plan::default();
    layout.plan(io, standing, |_| 0, &mut plan);
    plan
}

/// Parity rows of the commands with operation `op`, as (member, row).
fn rows_of(parts: &[(usize, Io)], op: Op) -> HashSet<(usize, u64)> {
    let commands = parts.iter().filter(|(_, io)| io.op == op);
    commands
        .flat_map(|&(member, io)| {
            let end = io.lba + u64::from(io.sectors);
            (io.lba / ROW_SECTORS..end.div_ceil(ROW_SECTORS)).map(move |row| (member, row))
        })
        .collect()
}

#[test]
fn every_sector_lies_at_a_place_of_its_own() {
    for kind in LEVELS {
        let layout = layout(kind);
        let standing = vec![Some(WHOLE); layout.members];
        let mut seen = HashSet::new();
        for lba in 0..20 * layout.stripe() {
            let plan = planned(&layout, Io::new(Op::Read, lba, 1), &standing);
            let [(member, io)] = plan.first[..] else { panic!("one sector, one command") };
            assert!(io.lba < 20 * layout.chunk && seen.insert((member, io.lba)), "{kind:?} {lba}");
        }
    }
}

#[test]
fn data_and_parity_of_a_stripe_lie_on_different_members() {
    for kind in LEVELS.into_iter().skip(3) {
        let layout = layout(kind);
        for stripe in 0..50 {
            let blocks = (0..layout.members).map(|block| layout.member_of(stripe, block));
            assert_eq!(blocks.collect::<HashSet<_>>().len(), layout.members);
        }
    }
}

/// For any write and any failed members: the read blocks suffice to compute the written parity.
#[test]
fn parity_can_be_computed_from_what_was_read() {
    let mut rng = Rng::new(5);
    for kind in LEVELS.into_iter().skip(3) {
        let layout = layout(kind);
        for _ in 0..2000 {
            let mut standing = vec![Some(WHOLE); layout.members];
            for _ in 0..rng.below(layout.parities() as u64 + 1) {
                let rebuilt = [None, Some(24)][rng.below(2) as usize];
                standing[rng.below(layout.members as u64) as usize] = rebuilt;
            }
            let lba = rng.below(3 * layout.stripe());
            let sectors = 1 + rng.below(2 * layout.stripe()) as u32;
            let plan = planned(&layout, Io::new(Op::Write, lba, sectors), &standing);
            let all: Vec<_> = plan.first.iter().chain(&plan.then).copied().collect();
            let (read, written) = (rows_of(&all, Op::Read), rows_of(&all, Op::Write));
            assert!(
                read.iter().all(|&(member, row)| {
                    is_readable(&standing, member, (row + 1) * ROW_SECTORS)
                })
            );
            let rows: HashSet<u64> = written.iter().map(|&(_, row)| row).collect();
            for row in rows {
                let stripe = row * ROW_SECTORS / layout.chunk;
                let members = |blocks: Range<usize>| {
                    blocks.map(|block| layout.member_of(stripe, block)).collect::<Vec<_>>()
                };
                let (data, parity) =
                    (members(0..layout.columns()), members(layout.columns()..layout.members));
                let parity: Vec<_> =
                    parity.into_iter().filter(|&p| standing[p].is_some()).collect();
                assert!(parity.iter().all(|&p| written.contains(&(p, row))), "parity is written");
                let is_read = |member: &usize| read.contains(&(*member, row));
                let mut host = (0..layout.columns()).filter(|&column| {
                    let first = (stripe * layout.columns() as u64 + column as u64) * layout.chunk
                        + row * ROW_SECTORS % layout.chunk;
                    first < lba + u64::from(sectors) && lba < first + ROW_SECTORS
                });
                let host: Vec<_> = host.by_ref().map(|column| data[column]).collect();
                let modifies = host.iter().chain(&parity).all(is_read);
                let rest = data.iter().filter(|member| !host.contains(member));
                let reconstructs = rest.clone().all(is_read);
                let computes = read.iter().filter(|&&(_, r)| r == row).count() >= layout.columns();
                assert!(
                    parity.is_empty() || modifies || reconstructs || computes,
                    "{kind:?} {row}"
                );
            }
        }
    }
}
