//! Status of a completed command: status code type and status code, named as in the base
//! specification's tables.

/// Status: code type in bits 10:8, code in bits 7:0; bit 14 is "do not retry".
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

/// Status code types.
const COMMAND_SPECIFIC: u16 = 1 << 8;
const MEDIA: u16 = 2 << 8;
const PATH: u16 = 3 << 8;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($value);)*

            /// Returns the specification's name in this crate's spelling.
            pub fn name(self) -> Option<&'static str> {
                $(if self.without_dnr() == Status::$name { return Some(stringify!($name)); })*
                None
            }
        }
    };
}

statuses! {
    /// The command completed without error.
    SUCCESS = 0x00;
    /// Unknown command.
    INVALID_OPCODE = 0x01;
    /// A field has a value that is reserved or not supported.
    INVALID_FIELD = 0x02;
    /// The transfer of data or metadata failed.
    DATA_TRANSFER_ERROR = 0x04;
    /// Internal error of the controller.
    INTERNAL_ERROR = 0x06;
    /// An Abort command aborted this command.
    ABORT_REQUESTED = 0x07;
    /// The namespace does not exist, or its format is not supported.
    INVALID_NAMESPACE = 0x0b;
    /// Wrong order: before Connect, or before the controller is enabled.
    COMMAND_SEQUENCE = 0x0c;
    /// A sanitize operation is running.
    SANITIZE_IN_PROGRESS = 0x1d;
    /// Data is longer or shorter than the command needs.
    SGL_LENGTH_INVALID = 0x0f;
    /// Host identifiers are longer than the requested format.
    HOST_IDENTIFIER_FORMAT = 0x18;
    /// This kind of SGL descriptor is not supported here.
    SGL_TYPE_INVALID = 0x11;
    /// A data pointer is not aligned.
    INVALID_PRP_OFFSET = 0x13;
    /// The offset of an SGL descriptor is invalid.
    SGL_OFFSET_INVALID = 0x16;
    /// The namespace is worn out or write-protected.
    NAMESPACE_WRITE_PROTECTED = 0x20;
    /// The transport failed; a retry may succeed.
    TRANSIENT_TRANSPORT_ERROR = 0x22;
    /// Flexible Data Placement is disabled.
    PLACEMENT_DISABLED = 0x29;
    /// The list of placement handles of a new namespace is invalid.
    INVALID_PLACEMENT_HANDLE_LIST = 0x2a;
    /// Address beyond the end of the namespace.
    LBA_OUT_OF_RANGE = 0x80;
    /// All blocks of the namespace are used.
    CAPACITY_EXCEEDED = 0x81;
    /// Another host holds a reservation, or this host has no such registration.
    RESERVATION_CONFLICT = 0x83;

    /// The queue's completion queue does not exist.
    COMPLETION_QUEUE_INVALID = COMMAND_SPECIFIC;
    /// The queue does not exist, or exists already.
    INVALID_QUEUE_IDENTIFIER = COMMAND_SPECIFIC | 0x01;
    /// The queue is too long or too short.
    INVALID_QUEUE_SIZE = COMMAND_SPECIFIC | 0x02;
    /// Too many outstanding Abort commands.
    ABORT_LIMIT_EXCEEDED = COMMAND_SPECIFIC | 0x03;
    /// Too many outstanding Asynchronous Event Requests.
    AER_LIMIT_EXCEEDED = COMMAND_SPECIFIC | 0x05;
    /// Unknown interrupt vector.
    INVALID_INTERRUPT_VECTOR = COMMAND_SPECIFIC | 0x08;
    /// Unsupported log page.
    INVALID_LOG_PAGE = COMMAND_SPECIFIC | 0x09;
    /// Unsupported LBA format.
    INVALID_FORMAT = COMMAND_SPECIFIC | 0x0a;
    /// The completion queue still has submission queues.
    INVALID_QUEUE_DELETION = COMMAND_SPECIFIC | 0x0c;
    /// The slot does not exist, or cannot be written.
    INVALID_FIRMWARE_SLOT = COMMAND_SPECIFIC | 0x06;
    /// The data is not a firmware image, or no image was downloaded.
    INVALID_FIRMWARE_IMAGE = COMMAND_SPECIFIC | 0x07;
    /// A reset activates the image.
    FIRMWARE_NEEDS_RESET = COMMAND_SPECIFIC | 0x0b;
    /// Parts of the image overlap or are missing.
    OVERLAPPING_RANGE = COMMAND_SPECIFIC | 0x14;
    /// A self-test is already running.
    SELF_TEST_IN_PROGRESS = COMMAND_SPECIFIC | 0x1d;
    /// The command exceeds a size limit.
    COMMAND_SIZE_LIMIT = COMMAND_SPECIFIC | 0x83;
    /// Not enough free capacity.
    NAMESPACE_INSUFFICIENT_CAPACITY = COMMAND_SPECIFIC | 0x15;
    /// The number of namespaces is at its maximum.
    NAMESPACE_ID_UNAVAILABLE = COMMAND_SPECIFIC | 0x16;
    /// The namespace is already attached to a controller.
    NAMESPACE_ALREADY_ATTACHED = COMMAND_SPECIFIC | 0x18;
    /// The namespace is private and attached to another controller.
    NAMESPACE_IS_PRIVATE = COMMAND_SPECIFIC | 0x19;
    /// The namespace is not attached to a controller.
    NAMESPACE_NOT_ATTACHED = COMMAND_SPECIFIC | 0x1a;
    /// The capacity of a namespace must equal its size.
    THIN_PROVISIONING_NOT_SUPPORTED = COMMAND_SPECIFIC | 0x1b;
    /// The controller list names missing controllers, or is not in order.
    CONTROLLER_LIST_INVALID = COMMAND_SPECIFIC | 0x1c;
    /// The feature has no value that outlasts a reset.
    FEATURE_NOT_SAVEABLE = COMMAND_SPECIFIC | 0x0d;

    /// The controller does not support the command set.
    COMMAND_SET_NOT_SUPPORTED = COMMAND_SPECIFIC | 0x29;

    /// Operation that is not allowed with the zone's random write area.
    INVALID_ZONE_OPERATION = COMMAND_SPECIFIC | 0xb6;
    /// The number of zones with a random write area is at its maximum.
    ZRWA_RESOURCES_UNAVAILABLE = COMMAND_SPECIFIC | 0xb7;
    /// The blocks belong to more than one zone, or are beyond a zone's capacity.
    ZONE_BOUNDARY_ERROR = COMMAND_SPECIFIC | 0xb8;
    /// The zone is full.
    ZONE_IS_FULL = COMMAND_SPECIFIC | 0xb9;
    /// The zone can only be read.
    ZONE_IS_READ_ONLY = COMMAND_SPECIFIC | 0xba;
    /// The zone has lost its data.
    ZONE_IS_OFFLINE = COMMAND_SPECIFIC | 0xbb;
    /// The write does not begin at the zone's write pointer.
    ZONE_INVALID_WRITE = COMMAND_SPECIFIC | 0xbc;
    /// The number of active zones is at its maximum.
    TOO_MANY_ACTIVE_ZONES = COMMAND_SPECIFIC | 0xbd;
    /// The number of open zones is at its maximum.
    TOO_MANY_OPEN_ZONES = COMMAND_SPECIFIC | 0xbe;
    /// The zone's state does not allow this transition.
    INVALID_ZONE_STATE_TRANSITION = COMMAND_SPECIFIC | 0xbf;

    /// Fabrics: unknown record format.
    CONNECT_INCOMPATIBLE_FORMAT = COMMAND_SPECIFIC | 0x80;
    /// Fabrics: the controller already has a host, or there are too many controllers.
    CONNECT_CONTROLLER_BUSY = COMMAND_SPECIFIC | 0x81;
    /// Fabrics: a parameter of Connect is invalid.
    CONNECT_INVALID_PARAMETERS = COMMAND_SPECIFIC | 0x82;
    /// Fabrics: the queue is not authenticated.
    AUTHENTICATION_REQUIRED = COMMAND_SPECIFIC | 0x91;
    /// Fabrics: this queue cannot be disconnected.
    INVALID_QUEUE_TYPE = COMMAND_SPECIFIC | 0x85;

    /// The data could not be read, after all retries.
    UNRECOVERED_READ_ERROR = MEDIA | 0x81;
    /// The data differs from the data of the Compare command.
    COMPARE_FAILURE = MEDIA | 0x85;

    /// The path has lost its access to the namespace for good.
    ASYMMETRIC_ACCESS_PERSISTENT_LOSS = PATH | 0x01;
    /// The path has no access to the namespace.
    ASYMMETRIC_ACCESS_INACCESSIBLE = PATH | 0x02;
    /// The access of the path to the namespace is changing.
    ASYMMETRIC_ACCESS_TRANSITION = PATH | 0x03;
}

/// Do not retry: the same command would fail again.
const DNR: u16 = 1 << 14;

impl Status {
    /// Sets the bit "do not retry": the same command would fail again.
    pub fn dnr(self) -> Status {
        Status(self.0 | DNR)
    }

    /// Returns code type and code only.
    pub fn without_dnr(self) -> Status {
        Status(self.0 & 0x07ff)
    }

    /// True if the command succeeded.
    pub fn is_success(self) -> bool {
        self.without_dnr() == Status::SUCCESS
    }
}

impl std::fmt::Debug for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dnr = if self.0 & DNR != 0 { "+DNR" } else { "" };
        match self.name() {
            Some(name) => write!(f, "{name}{dnr}"),
            None => write!(f, "{:#06x}", self.0),
        }
    }
}
