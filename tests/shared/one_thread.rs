//! A VCPU's thread that nothing has to be done to, since the kernel carries the law out.

use maracas_core::{CoreId, Instant};
use maracas_live_core::Handle;
use std::io;

/// A VCPU with one thread, whose number is the VCPU's and one.
pub(crate) struct OneThread(pub(crate) i32);

impl Handle for OneThread {
    type Site = ();

    fn set_level(&mut self, _: i32, _: u8) -> io::Result<()> {
        Ok(())
    }
    fn list(&mut self, tids: &mut Vec<i32>) -> io::Result<(Instant, Instant)> {
        tids.clear();
        tids.push(self.0);
        Ok((Instant::ZERO, Instant::ZERO))
    }
    fn ran(&mut self) -> io::Result<u64> {
        Ok(0)
    }
    fn go(&mut self, _: CoreId, (): ()) -> io::Result<bool> {
        Ok(true)
    }
    fn arrive(&mut self, _: CoreId) {}
    fn refusal(&self) -> io::Result<()> {
        Ok(())
    }
    fn forget_freezer(&self) {}
    fn thaw_now(&self) -> io::Result<()> {
        Ok(())
    }
}
