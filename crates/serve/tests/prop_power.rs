//! Power cuts compared with a reference: after any writes, flushes and cuts, each sector reads as a
//! possible version. No durable data is lost, no data is invented, and a lying drive is detected.
//!
//! The reference stores by sector the versions that may come back; it shares no code with the
//! store.

use std::collections::HashMap;

use crate::support::{changed_spec, drain, engine, engine_of, request, submit};
use drivebay_serve::{Control as _, Engine, Namespaces as _, Op, PowerCutLoss, Status};
use drivebay_units::{Lpn, Ppa, Rng, SECTOR_BYTES};

const SECTORS: u64 = 2048;
const SECTOR: usize = SECTOR_BYTES as usize;

/// Versions that may be read after a cut, by sector, the newest last.
struct Reference {
    versions: Vec<Vec<u64>>,
}

impl Reference {
    fn new() -> Reference {
        Reference { versions: vec![vec![0]; SECTORS as usize] }
    }

    fn put(&mut self, lba: u64, sectors: u64, version: u64) {
        for sector in &mut self.versions[lba as usize..(lba + sectors) as usize] {
            sector.push(version);
        }
    }

    fn safe(&mut self, lba: u64, sectors: u64) {
        for sector in &mut self.versions[lba as usize..(lba + sectors) as usize] {
            sector.drain(..sector.len() - 1);
        }
    }
}

fn pattern(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(SECTOR / 8)
}

fn read_version(engine: &Engine, lba: u64) -> u64 {
    let mut bytes = vec![0; SECTOR];
    engine.store().read(lba, &mut bytes).expect("memory");
    let version = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    assert_eq!(bytes, pattern(version), "sector {lba} is torn inside");
    version
}

struct Outcome {
    /// Number of sectors with impossible content.
    wrong: u64,
    /// Number of sectors that a cut reverted.
    lost: u64,
    /// Number of reverted sectors whose newest version had been acknowledged.
    lost_answered: u64,
}

/// Random commands with `cuts` power cuts.
fn torture(seed: u64, loss: PowerCutLoss, cuts: u64, lying: bool) -> Outcome {
    torture_of(engine(SECTORS, seed, lying), seed, loss, cuts)
}

fn torture_of(mut engine: Engine, seed: u64, loss: PowerCutLoss, cuts: u64) -> Outcome {
    let mut rng = Rng::new(seed).fork("torture");
    engine.allow_power_cuts(None, loss);
    let mut reference = Reference::new();
    let mut outcome = Outcome { wrong: 0, lost: 0, lost_answered: 0 };
    let (mut version, mut done_cuts) = (0, 0);
    while done_cuts < cuts {
        let lba = rng.below(SECTORS);
        let sectors = 1 + rng.below(24).min(SECTORS - lba - 1);
        version += 1;
        let fua = rng.below(8) == 0;
        let (op, data) = match rng.below(20) {
            0..=12 => (Op::Write { fua }, pattern(version).repeat(sectors as usize)),
            13 => (Op::Trim { fua: false }, Vec::new()),
            14 => (Op::WriteZeroes { fua, allocated: false }, Vec::new()),
            15..=17 => (Op::Flush, Vec::new()),
            _ => {
                let before = outcome.lost;
                check_cut(&mut engine, &mut reference, &mut outcome);
                outcome.lost_answered += outcome.lost - before;
                done_cuts += 1;
                continue;
            }
        };
        engine.begin_iteration();
        submit(&mut engine, request(op, lba, sectors as u32, version), &data);
        if rng.below(4) == 0 && op != Op::Flush {
            // The power is cut before the answer: new data, old data, or a part of each.
            put(&mut reference, op, lba, sectors, version);
            check_cut(&mut engine, &mut reference, &mut outcome);
            done_cuts += 1;
            assert!(drain(&mut engine).is_empty(), "an answer from before the cut");
            continue;
        }
        let done = drain(&mut engine);
        assert_eq!((done.len(), done[0].status), (1, Status::Ok));
        put(&mut reference, op, lba, sectors, version);
        match op {
            Op::Flush | Op::WriteZeroes { fua: true, .. } => reference.safe(0, SECTORS),
            Op::Write { fua: true } => reference.safe(lba, sectors),
            _ => {}
        }
    }
    outcome
}

fn put(reference: &mut Reference, op: Op, lba: u64, sectors: u64, version: u64) {
    match op {
        Op::Write { .. } => reference.put(lba, sectors, version),
        Op::Trim { .. } | Op::WriteZeroes { .. } => reference.put(lba, sectors, 0),
        Op::Read | Op::Flush | Op::HandleUpdate | Op::Append { .. } | Op::Zone(_) => {}
    }
}

fn check_cut(engine: &mut Engine, reference: &mut Reference, outcome: &mut Outcome) {
    engine.power_cut().expect("memory");
    for lba in 0..SECTORS {
        let found = read_version(engine, lba);
        let allowed = &mut reference.versions[lba as usize];
        outcome.wrong += u64::from(!allowed.contains(&found));
        outcome.lost += u64::from(allowed.last() != Some(&found));
        *allowed = vec![found];
    }
}

#[test]
fn nothing_safe_is_lost_in_hundreds_of_cuts() {
    for (seed, loss) in
        [(1, PowerCutLoss::All), (2, PowerCutLoss::Random), (3, PowerCutLoss::Unflushed)]
    {
        let outcome = torture(seed, loss, 400, false);
        assert_eq!(outcome.wrong, 0, "{loss:?}");
        assert!(outcome.lost > 1000, "{loss:?}: cuts lose what is not safe: {}", outcome.lost);
        assert!(outcome.lost_answered > 100, "{loss:?}: answered or not");
    }
}

/// With mapping units of 16 KiB most of these writes cover only a part; the rest of a unit falls
/// back to its old content.
#[test]
fn nothing_safe_is_lost_where_units_are_written_in_part() {
    for (seed, loss) in [(4, PowerCutLoss::All), (5, PowerCutLoss::Random)] {
        let spec = changed_spec(SECTORS as i64, false, |raw| {
            let controller = raw["controller"].as_table_mut().expect("a section");
            let unit = "value = 16\nsource = \"test\"".parse::<toml::Table>().expect("TOML");
            controller.insert("mapping_unit_kib".to_owned(), unit.into());
        });
        let outcome = torture_of(engine_of(spec, seed), seed, loss, 400);
        assert_eq!(outcome.wrong, 0, "{loss:?}");
        assert!(outcome.lost > 1000, "{loss:?}: cuts lose what is not safe: {}", outcome.lost);
    }
}

/// On media written in place all acknowledged data remains; without an answer, a part may be
/// written.
#[test]
fn nothing_that_was_answered_is_lost_on_media_that_is_written_in_place() {
    let spec = changed_spec(SECTORS as i64, false, |raw| {
        let whole = raw.as_table_mut().expect("a profile");
        for section in ["gc", "write_buffer", "read_ahead", "map_journal"] {
            whole.remove(section);
        }
        let changes = "in_place = true\nplanes = 1\npage_kib = 4\nblocks_per_plane = 64\npages_per_block = 64\nprogram_us = [3.0]";
        for (key, value) in changes.parse::<toml::Table>().expect("TOML") {
            let leaf = toml::Table::from_iter([
                ("value".to_owned(), value),
                ("source".to_owned(), "test".into()),
            ]);
            whole["nand"].as_table_mut().expect("a section").insert(key, leaf.into());
        }
        whole["nand"].as_table_mut().expect("a section").remove("read_by_type_us");
    });
    let outcome = torture_of(engine_of(spec, 6), 6, PowerCutLoss::All, 400);
    assert_eq!((outcome.wrong, outcome.lost_answered), (0, 0));
}

/// Data and model fall back together: after a cut each page has the version in the slot to which
/// the model's map points.
#[test]
fn data_falls_back_as_the_models_map_does() {
    const PAGES: u64 = SECTORS / 8;
    let mut rng = Rng::new(5).fork("map");
    let mut engine = engine(SECTORS, 5, false);
    engine.allow_power_cuts(None, PowerCutLoss::All);
    // Newest version, by page; last version seen, by slot and erases of its superblock.
    let mut newest = vec![0; PAGES as usize];
    let mut slots: HashMap<(Ppa, u32), (u64, u64)> = HashMap::new();
    let find = |engine: &mut Engine, page: u64| {
        let ftl = engine.device().ftl();
        let slot = ftl.look_up(Lpn(page as u32))?;
        Some((slot, ftl.superblock(ftl.locate(slot).0).erases))
    };
    let (mut version, mut lost, mut stayed, mut unseen) = (0, 0, 0, 0);
    for _ in 0..200 {
        for _ in 0..rng.below(80) {
            let page = rng.below(PAGES);
            let count = 1 + rng.below(8).min(PAGES - page - 1);
            version += 1;
            let data = pattern(version).repeat(8 * count as usize);
            let op = Op::Write { fua: rng.below(30) == 0 };
            engine.begin_iteration();
            submit(&mut engine, request(op, page * 8, 8 * count as u32, version), &data);
            assert_eq!(drain(&mut engine)[0].status, Status::Ok);
            newest[page as usize..(page + count) as usize].fill(version);
            // Garbage collection may have moved any page.
            for page in 0..PAGES {
                if let Some(place) = find(&mut engine, page) {
                    slots.insert(place, (page, newest[page as usize]));
                }
            }
        }
        let cut = engine.power_cut().expect("memory");
        assert!(cut.lost_bytes <= 2 << 20, "no more than the buffer holds");
        for page in 0..PAGES {
            let found = read_version(&engine, page * 8);
            assert!((1..8).all(|sector| read_version(&engine, page * 8 + sector) == found));
            match find(&mut engine, page).map(|place| slots.get(&place)) {
                None => assert_eq!(found, 0, "page {page} is unmapped"),
                Some(Some(&there)) => assert_eq!(there, (page, found)),
                // Copied twice within one command.
                Some(None) => unseen += 1,
            }
            let before = std::mem::replace(&mut newest[page as usize], found);
            if before == found {
                stayed += u64::from(found > 0);
            } else {
                lost += 1;
            }
        }
    }
    assert!(lost > 1000 && stayed > 1000, "{lost} lost, {stayed} stayed");
    assert!(unseen < stayed / 100, "{unseen} of {stayed}");
}

/// A host with blocks of 4 KiB never sees a torn block (AWUPF); one with blocks of 512 B may.
#[test]
fn a_cut_tears_writes_between_blocks() {
    for (block_shift, is_torn_inside) in [(9, true), (12, false)] {
        let mut engine = engine(SECTORS, 7, false);
        engine.format_namespace(1, block_shift).expect("a format");
        engine.allow_power_cuts(None, PowerCutLoss::Random);
        let mut rng = Rng::new(7).fork("blocks");
        let (mut torn_inside, mut torn) = (0, 0);
        for version in 1..400 {
            let page = rng.below(SECTORS / 8 - 2);
            let data = pattern(version).repeat(16);
            engine.begin_iteration();
            let write = request(Op::Write { fua: false }, page * 8, 16, version);
            submit(&mut engine, write, &data);
            drain(&mut engine);
            engine.power_cut().expect("memory");
            let found: Vec<_> =
                (page * 8..page * 8 + 16).map(|lba| read_version(&engine, lba)).collect();
            let pages = found.chunks(8);
            torn_inside += pages.filter(|page| page.iter().any(|one| *one != page[0])).count();
            torn +=
                usize::from(found.contains(&version) && found.iter().any(|&one| one != version));
        }
        assert_eq!(torn_inside > 0, is_torn_inside, "{torn_inside}");
        assert!(torn > 10, "{torn}");
    }
}

#[test]
fn a_drive_that_ignores_flushes_is_caught() {
    assert!(torture(3, PowerCutLoss::All, 100, true).wrong > 100);
}

#[test]
fn what_the_drive_can_lose_is_bounded() {
    let mut engine = engine(SECTORS * 16, 1, false);
    engine.allow_power_cuts(None, PowerCutLoss::All);
    let data = vec![1; 128 * SECTOR];
    let mut most = 0;
    for number in 0..200 {
        engine.begin_iteration();
        submit(&mut engine, request(Op::Write { fua: false }, number * 128, 128, number), &data);
        drain(&mut engine);
        most = most.max(engine.losable_bytes());
    }
    assert!(most > 0 && most < 200 * data.len() as u64);
    engine.begin_iteration();
    submit(&mut engine, request(Op::Flush, 0, 0, 0), &[]);
    drain(&mut engine);
    assert_eq!(engine.losable_bytes(), 0);
}
