use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_drive::whole_profile;

use super::*;

#[test]
fn a_panic_becomes_an_error_and_the_drive_is_not_used_again() {
    let profile = whole_profile(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("a valid profile");
    let profile = CString::new(profile.to_string()).expect("no zero bytes");
    // SAFETY: a text; then a drive.
    unsafe {
        let drive = drivebay_create(profile.as_ptr(), std::ptr::null(), 1);
        assert_eq!(with_drive(drive, -1, |_| panic!("inside the model")), -1);
        let error = CStr::from_ptr(drivebay_error()).to_str().expect("UTF-8");
        assert!(error.starts_with("the model failed"), "{error}");
        assert_eq!(drivebay_capacity(drive), 0);
        drivebay_destroy(drive);
    }
}
