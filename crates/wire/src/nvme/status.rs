//! Status of a completed command: code type and code, as the base specification's tables name them.

/// A status: code type in bits 10:8, code in bits 7:0; "do not retry" is bit 14.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

/// Code types.
const COMMAND_SPECIFIC: u16 = 1 << 8;
const MEDIA: u16 = 2 << 8;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($value);)*

            /// The specification's name, in this crate's spelling.
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
    /// No such command.
    INVALID_OPCODE = 0x01;
    /// A field has a value that is reserved or not supported.
    INVALID_FIELD = 0x02;
    /// Data or metadata could not be moved.
    DATA_TRANSFER_ERROR = 0x04;
    /// The controller is at fault.
    INTERNAL_ERROR = 0x06;
    /// An Abort command named this one.
    ABORT_REQUESTED = 0x07;
    /// No such namespace, or its format does not fit.
    INVALID_NAMESPACE = 0x0b;
    /// Out of order: before Connect, or before the controller is enabled.
    COMMAND_SEQUENCE = 0x0c;
    /// A sanitize operation goes on.
    SANITIZE_IN_PROGRESS = 0x1d;
    /// Data is longer or shorter than the command needs.
    SGL_LENGTH_INVALID = 0x0f;
    /// Identifiers of hosts are longer than was asked for.
    HOST_IDENTIFIER_FORMAT = 0x18;
    /// A kind of SGL descriptor that cannot be used here.
    SGL_TYPE_INVALID = 0x11;
    /// A data pointer that must be aligned is not.
    INVALID_PRP_OFFSET = 0x13;
    /// The offset of an SGL descriptor does not fit.
    SGL_OFFSET_INVALID = 0x16;
    /// Worn out, or protected.
    NAMESPACE_WRITE_PROTECTED = 0x20;
    /// The transport failed; another try may succeed.
    TRANSIENT_TRANSPORT_ERROR = 0x22;
    /// Placement is switched off.
    PLACEMENT_DISABLED = 0x29;
    /// A namespace's list of placement handles is wrong.
    INVALID_PLACEMENT_HANDLE_LIST = 0x2a;
    /// Beyond the end of the namespace.
    LBA_OUT_OF_RANGE = 0x80;
    /// The namespace's blocks are all used.
    CAPACITY_EXCEEDED = 0x81;
    /// A host holds a reservation, or this one has no such registration.
    RESERVATION_CONFLICT = 0x83;

    /// Its completion queue does not exist.
    COMPLETION_QUEUE_INVALID = COMMAND_SPECIFIC;
    /// No such queue, or it exists already.
    INVALID_QUEUE_IDENTIFIER = COMMAND_SPECIFIC | 0x01;
    /// Too long or too short.
    INVALID_QUEUE_SIZE = COMMAND_SPECIFIC | 0x02;
    /// Too many Abort commands.
    ABORT_LIMIT_EXCEEDED = COMMAND_SPECIFIC | 0x03;
    /// Too many Asynchronous Event Requests.
    AER_LIMIT_EXCEEDED = COMMAND_SPECIFIC | 0x05;
    /// No such interrupt vector.
    INVALID_INTERRUPT_VECTOR = COMMAND_SPECIFIC | 0x08;
    /// No such log page.
    INVALID_LOG_PAGE = COMMAND_SPECIFIC | 0x09;
    /// No such format.
    INVALID_FORMAT = COMMAND_SPECIFIC | 0x0a;
    /// A completion queue still has submission queues.
    INVALID_QUEUE_DELETION = COMMAND_SPECIFIC | 0x0c;
    /// No such slot, or one that cannot be written.
    INVALID_FIRMWARE_SLOT = COMMAND_SPECIFIC | 0x06;
    /// Not an image, or none was downloaded.
    INVALID_FIRMWARE_IMAGE = COMMAND_SPECIFIC | 0x07;
    /// The image is activated by a reset.
    FIRMWARE_NEEDS_RESET = COMMAND_SPECIFIC | 0x0b;
    /// Parts of the image overlap, or one is missing.
    OVERLAPPING_RANGE = COMMAND_SPECIFIC | 0x14;
    /// One goes on.
    SELF_TEST_IN_PROGRESS = COMMAND_SPECIFIC | 0x1d;
    /// More than the command may do at a time.
    COMMAND_SIZE_LIMIT = COMMAND_SPECIFIC | 0x83;
    /// So much is not free.
    NAMESPACE_INSUFFICIENT_CAPACITY = COMMAND_SPECIFIC | 0x15;
    /// There are as many namespaces as may be.
    NAMESPACE_ID_UNAVAILABLE = COMMAND_SPECIFIC | 0x16;
    /// A controller has it already.
    NAMESPACE_ALREADY_ATTACHED = COMMAND_SPECIFIC | 0x18;
    /// It is for one controller, and another one has it.
    NAMESPACE_IS_PRIVATE = COMMAND_SPECIFIC | 0x19;
    /// A controller does not have it.
    NAMESPACE_NOT_ATTACHED = COMMAND_SPECIFIC | 0x1a;
    /// A namespace's capacity must be its size.
    THIN_PROVISIONING_NOT_SUPPORTED = COMMAND_SPECIFIC | 0x1b;
    /// Controllers that there are not, or not in order.
    CONTROLLER_LIST_INVALID = COMMAND_SPECIFIC | 0x1c;
    /// The feature has no value that outlasts a reset.
    FEATURE_NOT_SAVEABLE = COMMAND_SPECIFIC | 0x0d;

    /// The controller has no such command set.
    COMMAND_SET_NOT_SUPPORTED = COMMAND_SPECIFIC | 0x29;

    /// What the zone's random write area does not go with.
    INVALID_ZONE_OPERATION = COMMAND_SPECIFIC | 0xb6;
    /// As many zones have a random write area as may.
    ZRWA_RESOURCES_UNAVAILABLE = COMMAND_SPECIFIC | 0xb7;
    /// Blocks of more than one zone, or behind a zone's capacity.
    ZONE_BOUNDARY_ERROR = COMMAND_SPECIFIC | 0xb8;
    /// It takes no more.
    ZONE_IS_FULL = COMMAND_SPECIFIC | 0xb9;
    /// It can be read, and no more.
    ZONE_IS_READ_ONLY = COMMAND_SPECIFIC | 0xba;
    /// It holds nothing any more.
    ZONE_IS_OFFLINE = COMMAND_SPECIFIC | 0xbb;
    /// Not at the zone's write pointer.
    ZONE_INVALID_WRITE = COMMAND_SPECIFIC | 0xbc;
    /// As many are active as may be.
    TOO_MANY_ACTIVE_ZONES = COMMAND_SPECIFIC | 0xbd;
    /// As many are open as may be.
    TOO_MANY_OPEN_ZONES = COMMAND_SPECIFIC | 0xbe;
    /// No such change from the zone's state.
    INVALID_ZONE_STATE_TRANSITION = COMMAND_SPECIFIC | 0xbf;

    /// Fabrics: a record format that is not known.
    CONNECT_INCOMPATIBLE_FORMAT = COMMAND_SPECIFIC | 0x80;
    /// Fabrics: the controller has a host, or there are too many.
    CONNECT_CONTROLLER_BUSY = COMMAND_SPECIFIC | 0x81;
    /// Fabrics: a parameter of Connect is wrong.
    CONNECT_INVALID_PARAMETERS = COMMAND_SPECIFIC | 0x82;
    /// Fabrics: the queue is not authenticated.
    AUTHENTICATION_REQUIRED = COMMAND_SPECIFIC | 0x91;
    /// Fabrics: not a queue that can be disconnected.
    INVALID_QUEUE_TYPE = COMMAND_SPECIFIC | 0x85;

    /// Data could not be read, whatever was tried.
    UNRECOVERED_READ_ERROR = MEDIA | 0x81;
    /// The data differs.
    COMPARE_FAILURE = MEDIA | 0x85;
}

/// Do not retry: the same command would fail again.
const DNR: u16 = 1 << 14;

impl Status {
    /// With the bit that says that the same command would fail again.
    pub fn dnr(self) -> Status {
        Status(self.0 | DNR)
    }

    /// Code type and code alone.
    pub fn without_dnr(self) -> Status {
        Status(self.0 & 0x07ff)
    }

    /// Whether the command did what it was to do.
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
