//! Unit tests of `nvme/reservations.rs`, with its private items in reach.

use super::*;

#[test]
fn a_controller_without_a_host_is_not_the_host_whose_identifier_is_zeros() {
    let (tcp, pci, nsid) = (1, 2, 1);
    let mut all = Reservations::default();
    all.join(tcp, HostId::default());
    for (opcode, cdw10, keys) in [
        (NvmOpcode::ReservationRegister, 0, [0, 7]),
        (NvmOpcode::ReservationAcquire, 1 << 8, [7, 0]),
    ] {
        let sqe = Sqe { nsid: nsid.into(), cdw10: u32::into(cdw10), ..Sqe::default() };
        let data = keys.map(u64::to_le_bytes).concat();
        assert_eq!(all.execute(tcp, opcode, &sqe, &data), Ok(Vec::new()));
    }
    let excluded = [tcp, pci].map(|controller| all.exclude(controller, nsid, Access::Write));
    assert_eq!(excluded, [false, true]);
}
