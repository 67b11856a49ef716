//! NVMe: queue entries, data structures, fabrics commands, and the PDUs of NVMe over TCP.
//!
//! Sources: NVM Express base specification 1.4 (queue entries, identify data, log pages, features),
//! NVM Express over Fabrics 1.1 (capsules, connect, properties, discovery log) and its TCP
//! transport (TP 8000). Structures are laid out byte by byte, little-endian, and read from bytes
//! without conversion; reserved bytes are written as zero and ignored when read. Left out:
//! metadata, directives other than data placement, TLS.

mod auth;
mod entry;
mod fabrics;
mod feature;
mod identify;
mod layout;
mod log;
mod pdu;
mod placement;
mod reservation;
mod status;
mod zones;

pub use auth::{
    AuthChallenge, AuthFailure, AuthHead, AuthId, AuthNegotiate, AuthReply, AuthSuccess,
    SECURITY_PROTOCOL,
};
pub use entry::{
    AdminOpcode, CopyRange, Cqe, DsmRange, NAMESPACE_CREATE, NvmOpcode, Sgl, SglKind, Sqe,
};
pub use fabrics::{
    CONNECT_AUTHENTICATE, CONNECT_CNTLID_ANY, ConnectData, DISCOVERY_NQN, DiscoveryEntry,
    DiscoveryHeader, FabricsType, OPCODE_FABRICS, Property, SUBSYSTEM_NVM, TRANSPORT_TCP, nqn_of,
    padded_nqn,
};
pub use feature::{Feature, SCOPE_CONTROLLER, SCOPE_NAMESPACE, SCOPE_SUBSYSTEM, Select, Shape};
pub use identify::{
    COMMAND_SET_NVM, CONTROLLER_LIST_MAX, Cns, IdentifyController, IdentifyIndependentNamespace,
    IdentifyNamespace, IdentifyNvmController, LbaFormat, NID_COMMAND_SET, NID_EUI64, PowerState,
    padded,
};
pub use log::{
    AccessGroup, AccessLog, CommandEffects, CriticalWarning, EFFECT_CHANGES_CAPABILITY,
    EFFECT_CHANGES_DATA, EFFECT_CHANGES_NAMESPACES, EFFECT_EXCLUSIVE, EFFECT_SUPPORTED, ErrorEntry,
    FirmwareSlots, LogPage, OcpLatency, OcpSmart, PaceLog, PersistentEvent, PersistentHeader,
    PersistentKind, SELF_TEST_NONE, SELF_TESTS, SanitizeStatus, SelfTestLog, SelfTestResult,
    SmartLog, TELEMETRY_BLOCK, TelemetryHeader, ocp_trailer,
};
pub use pdu::{
    ALIGNMENT_MAX, Data, DataPdu, Decoder, Digests, FLAG_LAST, FLAG_SUCCESS, Fault, FaultKind,
    HEADER_BYTES, InitPdu, Pdu, PduType, TermPdu, encode, encode_data_with,
};
pub use placement::{
    CREATE_HANDLE_LIST, CREATE_HANDLES, DIRECTIVE_PLACEMENT, EnduranceGroupLog, HANDLES_MAX,
    HandleStatus, MANAGE_HANDLES, PlacementConfiguration, PlacementConfigurations, PlacementEvent,
    PlacementEventKind, PlacementStatistics,
};
pub use reservation::{
    RegisteredController, ReservationNotice, ReservationNotification, ReservationReport,
    ReservationType,
};
pub use status::Status;
pub use zones::{
    CC_ALL_COMMAND_SETS, CHANGED_ZONES_MAX, COMMAND_SET_ZONED, ChangedZones,
    IdentifyZonedNamespace, ZONE_SEQUENTIAL, ZoneAction, ZoneDescriptor, ZoneFormat, ZoneReport,
};

#[cfg(test)]
#[path = "../../tests/unit/nvme.rs"]
mod tests;
