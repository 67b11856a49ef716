//! ATA commands: decides the drive's action from the values of the registers.
//!
//! Source: ACS-3. SMART's attributes are those that vendors usually have, from the model's health.

use drivebay_drive::Spec;
use drivebay_units::refuse_if;
use drivebay_wire::ata::{
    Answer, Command, Fault, Identify, Opcode, STATUS_READY, checksummed, queued_error_log,
};

use crate::interface::drive::Drive;

/// Action of the device for a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send sectors to the host; by PIO if the command requires it.
    Read { lba: u64, sectors: u32, is_pio: bool },
    /// Receive sectors from the host.
    Write { lba: u64, sectors: u32, fua: bool },
    /// Flush the write cache.
    Flush,
    /// Deallocate ranges; the host sends `bytes` of them.
    Trim { bytes: usize },
    /// Return data that does not come from the medium.
    Return { data: Vec<u8>, is_pio: bool },
    /// Only complete the command.
    Answer(Answer),
}

/// Names and limits of a drive.
#[derive(Clone, Debug)]
pub struct Identity(Identify);

impl Identity {
    /// Creates the identity from a profile. No publication gives the firmware revision.
    pub fn new(spec: &Spec, serial: &str) -> Identity {
        Identity(Identify {
            serial: serial.to_owned(),
            firmware: "1.0".to_owned(),
            model: spec.raw.drive.model.value.chars().filter(char::is_ascii).take(40).collect(),
            sectors: 0,
            queue_depth: spec.queue_depth_max.clamp(1, 32) as u8,
            has_write_cache: true,
            has_trim: true,
        })
    }
}

/// State of the ATA device.
pub(super) struct Ata {
    identity: Identify,
    smart: bool,
    /// Last failed queued command, until the host reads the log.
    pub failed: Option<(u8, Answer)>,
}

/// TRIM, in the features of DATA SET MANAGEMENT.
const TRIM: u16 = 1;
/// SMART: LBA mid and high of every subcommand; and those that report a failing drive.
const SMART_KEY: u64 = 0xc2_4f00;
const SMART_FAILING: u64 = 0x2c_f400;
/// Addresses of the logs that READ LOG EXT returns.
const LOG_DIRECTORY: u64 = 0x00;
const LOG_QUEUED_ERROR: u64 = 0x10;

impl Ata {
    pub fn new(identity: Identity, sectors: u64) -> Ata {
        Ata { identity: Identify { sectors, ..identity.0 }, smart: true, failed: None }
    }

    /// Decides the action for a command.
    pub fn plan(&mut self, drive: &mut dyn Drive, command: &Command) -> Result<Action, Fault> {
        let opcode = Opcode::from_code(command.code).ok_or(Fault::Aborted)?;
        let fua = !self.identity.has_write_cache;
        let (long, short) =
            ((command.lba, command.sectors48()), (command.lba28(), command.sectors28()));
        let read = |(lba, sectors): (u64, u32), is_pio| Action::Read { lba, sectors, is_pio };
        let write = |(lba, sectors): (u64, u32), fua| Action::Write { lba, sectors, fua };
        let action = match opcode {
            Opcode::ReadDmaExt => read(long, false),
            Opcode::ReadSectorsExt => read(long, true),
            Opcode::ReadDma => read(short, false),
            Opcode::ReadSectors => read(short, true),
            Opcode::ReadQueued => read((command.lba, command.sectors_queued()), false),
            Opcode::WriteDmaExt => write(long, fua),
            Opcode::WriteDmaFuaExt => write(long, true),
            Opcode::WriteDma => write(short, fua),
            Opcode::WriteQueued => {
                write((command.lba, command.sectors_queued()), fua || command.is_fua())
            }
            Opcode::ReadVerify | Opcode::ReadVerifyExt => {
                let range = if opcode == Opcode::ReadVerify { short } else { long };
                self.check(range)?;
                Action::Answer(Answer::to(command, None))
            }
            Opcode::FlushCache | Opcode::FlushCacheExt | Opcode::StandbyImmediate => Action::Flush,
            Opcode::DataSetManagement if command.features == TRIM && command.count > 0 => {
                Action::Trim { bytes: usize::from(command.count) * 512 }
            }
            Opcode::DataSetManagement => return Err(Fault::Aborted),
            Opcode::IdentifyDevice => {
                Action::Return { data: self.identity.page().to_vec(), is_pio: true }
            }
            Opcode::ReadLogExt => Action::Return { data: self.log(command)?, is_pio: true },
            Opcode::ReadLogDmaExt => Action::Return { data: self.log(command)?, is_pio: false },
            Opcode::Smart => self.smart(drive, command)?,
            Opcode::SetFeatures => self.set_features(command)?,
            Opcode::IdleImmediate => Action::Answer(Answer::to(command, None)),
            // Active or idle.
            Opcode::CheckPowerMode => {
                Action::Answer(Answer { count: 0xff, ..Answer::to(command, None) })
            }
        };
        if let Action::Read { lba, sectors, .. } | Action::Write { lba, sectors, .. } = action {
            self.check((lba, sectors))?;
        }
        Ok(action)
    }

    fn check(&self, (lba, sectors): (u64, u32)) -> Result<(), Fault> {
        refuse_if(lba + u64::from(sectors) > self.identity.sectors, Fault::NotFound)
    }

    fn log(&mut self, command: &Command) -> Result<Vec<u8>, Fault> {
        let (page, first) = (command.lba & 0xff, command.lba >> 8 & 0xff_ffff);
        refuse_if(command.count != 1 || first != 0, Fault::Aborted)?;
        match page {
            LOG_DIRECTORY => {
                let mut data = vec![0; 512];
                data[0] = 1;
                data[2 * LOG_QUEUED_ERROR as usize] = 1;
                Ok(data)
            }
            LOG_QUEUED_ERROR => {
                let nothing =
                    Answer { status: STATUS_READY, error: 0, lba: 0, device: 0, count: 0 };
                // Bit 7: not a queued command.
                let (tag, answer) = self.failed.take().unwrap_or((0x80, nothing));
                Ok(queued_error_log(tag, &answer).to_vec())
            }
            _ => Err(Fault::Aborted),
        }
    }

    fn set_features(&mut self, command: &Command) -> Result<Action, Fault> {
        match command.features as u8 {
            0x02 => self.identity.has_write_cache = true,
            0x82 => self.identity.has_write_cache = false,
            // Transfer mode, look-ahead, interface features: accepted without effect.
            0x03 | 0x55 | 0xaa | 0x10 | 0x90 => {}
            _ => return Err(Fault::Aborted),
        }
        Ok(Action::Answer(Answer::to(command, None)))
    }

    fn smart(&mut self, drive: &mut dyn Drive, command: &Command) -> Result<Action, Fault> {
        refuse_if(command.lba & 0xff_ff00 != SMART_KEY, Fault::Aborted)?;
        let done = Answer::to(command, None);
        let page_of = |page: [u8; 512]| Action::Return { data: page.to_vec(), is_pio: true };
        match (command.features as u8, self.smart) {
            (0xd8, _) => self.smart = true,
            (_, false) => return Err(Fault::Aborted),
            (0xd9, _) => self.smart = false,
            (0xd0, _) => return Ok(page_of(attributes(drive))),
            (0xd1, _) => return Ok(page_of(thresholds())),
            // Logs: the directory and the error log, which is empty.
            (0xd5, _) if command.lba as u8 <= 1 => return Ok(page_of(checksummed([0; 512]))),
            // Attributes are always saved.
            (0xd2, _) => {}
            (0xda, _) => {
                let is_failing =
                    drive.is_read_only() || drive.health().available_spare_percent == 0;
                let lba = if is_failing { SMART_FAILING } else { SMART_KEY };
                return Ok(Action::Answer(Answer { lba, ..done }));
            }
            _ => return Err(Fault::Aborted),
        }
        Ok(Action::Answer(done))
    }
}

/// Identifiers of the attributes.
const ATTRIBUTES: [u8; 8] = [9, 12, 177, 180, 187, 194, 199, 241];

/// SMART READ DATA.
fn attributes(drive: &mut dyn Drive) -> [u8; 512] {
    let health = drive.health();
    let worn = health.percentage_used.unwrap_or(0);
    let temperature = health.temperature_c.clamp(0.0, 255.0) as u8;
    let raw = [
        health.power_on.0 / 3_600_000_000_000,
        health.power_cycles,
        u64::from(worn),
        u64::from(health.available_spare_percent),
        health.media_errors,
        u64::from(temperature),
        health.link_outages,
        // Sectors.
        health.data_units_written * 1000,
    ];
    let spare = health.available_spare_percent;
    let value = [100, 100, 100 - worn.min(99), spare, 100, 100 - temperature.min(99), 100, 100];
    let mut page = [0; 512];
    page[0] = 0x0a;
    let places = page[2..362].as_chunks_mut::<12>().0;
    for (((place, id), raw), value) in places.iter_mut().zip(ATTRIBUTES).zip(raw).zip(value) {
        // A low value does not predict a failure.
        (place[0], place[1], place[3], place[4]) = (id, 0x32, value, value);
        place[5..11].copy_from_slice(&raw.to_le_bytes()[..6]);
    }
    // No offline collection, no self-test; attributes are saved automatically; errors are logged.
    (page[368], page[370]) = (0x02, 0x01);
    checksummed(page)
}

/// SMART READ THRESHOLDS: no threshold predicts a failure.
fn thresholds() -> [u8; 512] {
    let mut page = [0; 512];
    page[0] = 0x0a;
    for (place, id) in page[2..362].as_chunks_mut::<12>().0.iter_mut().zip(ATTRIBUTES) {
        place[0] = id;
    }
    checksummed(page)
}
