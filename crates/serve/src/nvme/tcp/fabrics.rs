//! Fabrics commands: connecting a queue, properties, and the discovery log.
//!
//! Source: NVMe over Fabrics 1.1, sections 3.3 to 3.5, 5.

use std::net::SocketAddr;
use std::sync::Arc;

use drivebay_units::refuse_if;
use drivebay_wire::nvme::{
    CONNECT_AUTHENTICATE, CONNECT_CNTLID_ANY, ConnectData, DISCOVERY_NQN, DiscoveryEntry,
    DiscoveryHeader, FabricsType, Feature, Property, SECURITY_PROTOCOL, SUBSYSTEM_NVM, Sqe, Status,
    TRANSPORT_TCP, bytes_of, nqn_of, padded, padded_nqn,
};
use zerocopy::{FromBytes, IntoBytes};

use super::auth::Authentication;
use crate::interface::drive::Drive;
use crate::nvme::admin::{Outcome, part_of_page};
use crate::nvme::controller::{Effect, Flags, READY_TIMEOUTS};
use crate::nvme::features::in_grains;
use crate::nvme::identity::{Kind, VERSION};
use crate::nvme::subsystem::{Subsystem, Subsystems};

/// Most entries of an admin queue.
const ADMIN_ENTRIES_MAX: u16 = 128;
/// Least entries of a queue.
const ENTRIES_MIN: u16 = 2;
/// Connect's attribute: no flow control of the submission queue.
const NO_FLOW_CONTROL: u8 = 1 << 2;

/// Queue of a connection after Connect.
pub(super) struct Connected {
    pub controller: u16,
    /// Queue identifier; 0 is the admin queue.
    pub id: u16,
    pub entries: u16,
    pub flow_control: bool,
    pub flags: Arc<Flags>,
    /// The controller's epoch when the queue was connected.
    pub epoch: u32,
    /// True if the host has asked to disconnect.
    pub is_leaving: bool,
    /// Authentication, if it is required.
    pub authentication: Option<Authentication>,
}

impl Connected {
    /// True if the queue may be used.
    pub fn is_authentic(&self) -> bool {
        self.authentication.as_ref().is_none_or(Authentication::is_done)
    }
}

/// Result of a fabrics command.
pub(super) struct Reply {
    pub result: u64,
    /// Data for the host.
    pub data: Vec<u8>,
    /// True if the drive must be flushed for a shutdown.
    pub flush: bool,
}

/// Status of a refused command, with the location of the wrong parameter.
type Refusal = (Status, u64);

/// Executes a command on a connection to this portal.
pub(super) fn execute(
    subsystem: &mut Subsystem,
    drive: &mut dyn Drive,
    connected: &mut Option<Connected>,
    portal: u16,
    sqe: &Sqe,
    data: &[u8],
) -> Result<Reply, Refusal> {
    let refuse = |status: Status| (status.dnr(), 0);
    let is_fabrics = sqe.opcode == drivebay_wire::nvme::OPCODE_FABRICS;
    refuse_if(!is_fabrics, refuse(Status::COMMAND_SEQUENCE))?;
    let command = FabricsType::from_sqe(sqe);
    let Some(queue) = connected else {
        let FabricsType::Connect { .. } = command else {
            return Err(refuse(Status::COMMAND_SEQUENCE));
        };
        let queue = connect(subsystem, drive, portal, command, data)?;
        let wants = u32::from(!queue.is_authentic()) * CONNECT_AUTHENTICATE;
        let result = u64::from(u32::from(queue.controller) | wants);
        *connected = Some(queue);
        return Ok(Reply { result, data: Vec::new(), flush: false });
    };
    let identity = subsystem.identity.clone();
    let controller = subsystem.get_mut(queue.controller).ok_or(refuse(Status::INTERNAL_ERROR))?;
    let done = |result| Ok(Reply { result, data: Vec::new(), flush: false });
    match command {
        FabricsType::AuthenticationSend { protocol, .. }
        | FabricsType::AuthenticationReceive { protocol, .. }
            if protocol != SECURITY_PROTOCOL =>
        {
            Err(refuse(Status::INVALID_FIELD))
        }
        FabricsType::AuthenticationSend { .. } => {
            let queue = queue.authentication.as_mut().ok_or(refuse(Status::COMMAND_SEQUENCE))?;
            queue.take(data).map_err(|status| (status, 0))?;
            done(0)
        }
        FabricsType::AuthenticationReceive { bytes, .. } => {
            let queue = queue.authentication.as_mut().ok_or(refuse(Status::COMMAND_SEQUENCE))?;
            let mut data = queue.give().map_err(|status| (status, 0))?;
            data.resize(bytes as usize, 0);
            Ok(Reply { result: 0, data, flush: false })
        }
        FabricsType::Disconnect if queue.id == 0 => Err(refuse(Status::INVALID_QUEUE_TYPE)),
        FabricsType::Disconnect => {
            queue.is_leaving = true;
            done(0)
        }
        _ if !queue.is_authentic() => Err(refuse(Status::AUTHENTICATION_REQUIRED)),
        _ if queue.id != 0 => Err(refuse(Status::INVALID_OPCODE)),
        FabricsType::PropertyGet { offset, is_wide } => {
            let property = property_at(offset).filter(|property| property.is_wide() == is_wide);
            done(match property.ok_or(refuse(Status::INVALID_FIELD))? {
                Property::Capabilities => controller.cap,
                Property::Version => u64::from(VERSION),
                Property::Configuration => u64::from(controller.cc),
                Property::Status => controller.csts.into(),
                Property::SubsystemReset => 0,
                Property::ReadyTimeouts => READY_TIMEOUTS.into(),
            })
        }
        FabricsType::PropertySet { offset, is_wide: false, value }
            if property_at(offset) == Some(Property::Configuration) =>
        {
            let was_ready = controller.is_ready();
            let effect = controller.configure(value as u32, &identity);
            let flush = effect == Effect::Shutdown && controller.kind != Kind::Discovery;
            if effect == Effect::Shutdown && !flush {
                controller.shut_down();
            }
            if controller.is_ready() && !was_ready && controller.kind != Kind::Discovery {
                subsystem.note_reset(queue.controller, drive);
            }
            Ok(Reply { result: 0, data: Vec::new(), flush })
        }
        FabricsType::PropertySet { .. } => Err(refuse(Status::INVALID_FIELD)),
        FabricsType::Connect { .. } | FabricsType::Other(_) => Err(refuse(Status::INVALID_OPCODE)),
    }
}

fn property_at(offset: u32) -> Option<Property> {
    u8::try_from(offset).ok().and_then(Property::from_code)
}

/// Error for a wrong parameter of Connect, in the command or in its data.
fn wrong(place: u16, in_data: bool) -> Refusal {
    let result = u64::from(place) | u64::from(in_data) << 16;
    (Status::CONNECT_INVALID_PARAMETERS.dnr(), result)
}

fn connect(
    subsystem: &mut Subsystem,
    drive: &dyn Drive,
    portal: u16,
    command: FabricsType,
    data: &[u8],
) -> Result<Connected, Refusal> {
    let FabricsType::Connect { format, queue, entries_less_one, attributes, keep_alive_ms } =
        command
    else {
        return Err((Status::INVALID_FIELD.dnr(), 0));
    };
    refuse_if(format != 0, (Status::CONNECT_INCOMPATIBLE_FORMAT.dnr(), 0))?;
    let data = ConnectData::read_from_prefix(data).map(|(data, _)| data);
    let data = data.map_err(|_| (Status::SGL_LENGTH_INVALID.dnr(), 0))?;
    let host = nqn_of(&data.host_nqn).ok_or(wrong(512, true))?;
    let name = nqn_of(&data.subsystem_nqn).ok_or(wrong(256, true))?;
    let kind = match name {
        DISCOVERY_NQN => Kind::Discovery,
        name if name == subsystem.identity.drive.nqn => Kind::Tcp,
        _ => return Err(wrong(256, true)),
    };
    let max = if queue == 0 { ADMIN_ENTRIES_MAX } else { subsystem.identity.queue_entries_max };
    let entries = entries_less_one.saturating_add(1);
    refuse_if(!(ENTRIES_MIN..=max).contains(&entries), wrong(44, false))?;
    let flow_control = attributes & NO_FLOW_CONTROL == 0;
    let secrets = subsystem.secrets.clone().filter(|_| kind == Kind::Tcp);
    let authentication = secrets.map(|secrets| Authentication::new(&secrets, host, name));
    let asked = data.controller.get();
    let (controller, flags) = if queue == 0 {
        refuse_if(asked != CONNECT_CNTLID_ANY, wrong(16, true))?;
        let busy = (Status::CONNECT_CONTROLLER_BUSY, 0);
        let id = subsystem.add(kind, portal).ok_or(busy)?;
        let controller = subsystem.get_mut(id).ok_or(busy)?;
        controller.host_nqn = host.to_owned();
        controller.features.host_id = data.host_id;
        controller.features[Feature::KeepAliveTimer] = in_grains(keep_alive_ms);
        if kind == Kind::Tcp {
            let reservations = &controller.flags.shared.reservations;
            reservations.with(drive.power_cuts(), |all| all.join(id, data.host_id));
        }
        (id, &controller.flags)
    } else {
        let controller = subsystem.get_mut(asked).ok_or(wrong(16, true))?;
        let is_own = controller.host_nqn == host && controller.kind == kind;
        refuse_if(!is_own || kind == Kind::Discovery, wrong(512, true))?;
        // A controller belongs to one port.
        refuse_if(controller.flags.portal != portal, wrong(16, true))?;
        refuse_if(controller.features.host_id != data.host_id, wrong(0, true))?;
        refuse_if(!controller.flags.serves(), (Status::COMMAND_SEQUENCE.dnr(), 0))?;
        // As many as were granted, counted from 0.
        let granted = (controller.features[Feature::NumberOfQueues] & 0xffff) + 1;
        refuse_if(u32::from(queue) > granted, wrong(42, false))?;
        let place = 1 << (queue - 1);
        refuse_if(controller.queues & place != 0, (Status::CONNECT_CONTROLLER_BUSY, 0))?;
        controller.queues |= place;
        (asked, &controller.flags)
    };
    Ok(Connected {
        controller,
        id: queue,
        entries,
        flow_control,
        flags: Arc::clone(flags),
        epoch: flags.epoch(),
        is_leaving: false,
        authentication,
    })
}

/// Number of the drive whose subsystem a Connect command names.
pub(super) fn drive_of(subsystems: &Subsystems, sqe: &Sqe, data: &[u8]) -> Option<usize> {
    let FabricsType::Connect { .. } = FabricsType::from_sqe(sqe) else { return None };
    let (data, _) = ConnectData::read_from_prefix(data).ok()?;
    subsystems.find(nqn_of(&data.subsystem_nqn)?)
}

/// Discovery log: all subsystems, at each portal, for a host that has connected to `address`.
pub(super) fn discovery_log(
    subsystems: &Subsystems,
    address: SocketAddr,
    sqe: &Sqe,
) -> Result<Outcome, Status> {
    let portals = subsystems.portals(address);
    let records = ((subsystems.names().len() * portals.len()) as u64).into();
    let header = DiscoveryHeader { generation: 1.into(), records, ..DiscoveryHeader::default() };
    let entry = |nqn: &str, number: u16, address: &SocketAddr| DiscoveryEntry {
        transport: TRANSPORT_TCP,
        address_family: if address.is_ipv4() { 1 } else { 2 },
        subsystem_type: SUBSYSTEM_NVM,
        // A secure channel is not required.
        requirements: 2,
        port: number.into(),
        controller: CONNECT_CNTLID_ANY.into(),
        admin_entries_max: ADMIN_ENTRIES_MAX.into(),
        service: padded(&address.port().to_string()),
        subsystem_nqn: padded_nqn(nqn),
        address: padded(&address.ip().to_string()),
        ..DiscoveryEntry::default()
    };
    let mut page = bytes_of(&header);
    for nqn in subsystems.names() {
        for (number, portal) in (1..).zip(&portals) {
            page.extend_from_slice(entry(nqn, number, portal).as_bytes());
        }
    }
    part_of_page(page, sqe.log_offset(), sqe.log_bytes())
}
