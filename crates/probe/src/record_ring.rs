//! Reading a ring of records: without waiting, and never so much at once that the reader does nothing else.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use crate::error::{Error, Result};

/// A mapped ring, and the function that takes its records.
pub(crate) struct RecordRing(RingBuffer<'static>);

impl RecordRing {
    /// Maps the ring. Each record goes to `take`, which only [`Self::read_records`] calls.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    fn new(map: &MapHandle, mut take: impl FnMut(&[u8]) + 'static) -> Result<Self> {
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |bytes| {
                take(bytes);
                0
            })
            .map_err(Error::load("map the ring of records"))?;
        let ring = builder
            .build()
            .map_err(Error::load("map the ring of records"))?;
        Ok(Self(ring))
    }

    /// Maps the ring. Each record goes to `add_record`, with `receiver` lent to it.
    ///
    /// A receiver that somebody has borrowed while the ring is read would miss the record. Nobody has: whoever calls
    /// [`Self::read_records`] owns both, and gives its own borrows back before.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub(crate) fn with_receiver<T: 'static>(
        map: &MapHandle,
        receiver: &Rc<RefCell<T>>,
        add_record: impl Fn(&mut T, &[u8]) + 'static,
    ) -> Result<Self> {
        let receiver = Rc::clone(receiver);
        Self::new(map, move |bytes| {
            if let Ok(mut receiver) = receiver.try_borrow_mut() {
                add_record(&mut receiver, bytes);
            }
        })
    }

    /// Passes on the records that are there, at most so many; true if there may be more.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub(crate) fn read_records(&self, at_most: usize) -> Result<bool> {
        let read = self.0.consume_raw_n(at_most);
        match usize::try_from(read) {
            Ok(read) => Ok(read >= at_most),
            Err(_) => Err(Error::load("read the ring of records")(
                libbpf_rs::Error::from_raw_os_error(-read),
            )),
        }
    }
}
