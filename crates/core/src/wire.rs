//! How each type is written in journals and control messages: LEB128 integers, options and
//! results by a leading byte, lists by their length. `take` returns `None` for anything that
//! `put` could not have written.

use crate::contract::{
    End, Event, Grant, Limit, MemoryLimit, Mode, Refused, RunQueue, Sample, Segment,
    ServiceRequest, Usage,
};
use crate::params::{Params, Value};
use crate::{
    Arrival, Class, Core, CoreId, Criticality, Duration, Instant, Job, JobId, List, MAX_CORES,
    Rate, Reservation, Role, System, Vcpu, VcpuId,
};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

/// First byte of an event record.
pub(crate) const EVENT: u8 = 0;
/// First byte of a plan record.
pub(crate) const PLANNED: u8 = 1;

/// A type with a place in the journal.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

pub(crate) fn take<T: Wire>(from: &mut &[u8]) -> Option<T> {
    T::take(from)
}

/// Numbers of so many bits fit into one word, seven of them a byte.
const MOST_SPREAD: u32 = 56;
/// The bit of each byte that says that another byte follows.
const CONTINUED: u64 = 0x8080_8080_8080_8080;

/// The bits of a number of 56 bits at most, seven a byte: its halves are moved apart, then theirs,
/// then the bytes.
const fn spread(number: u64) -> u64 {
    let halves = (number & 0x0fff_ffff) | (number & 0x00ff_ffff_f000_0000) << 4;
    let quarters = (halves & 0x0000_3fff_0000_3fff) | (halves & 0x0fff_c000_0fff_c000) << 2;
    (quarters & 0x007f_007f_007f_007f) | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// Writes a number of more than [`MOST_SPREAD`] bits.
fn put_long(number: u64, out: &mut Vec<u8>) {
    if number == u64::MAX {
        // "Never" and "no limit", of which plans are full.
        return out.extend_from_slice(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }
    let low = number & ((1 << MOST_SPREAD) - 1);
    out.extend_from_slice(&(spread(low) | CONTINUED).to_le_bytes());
    (number >> MOST_SPREAD).put(out);
}

impl Wire for u64 {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        if *self < 0x80 {
            return out.push(*self as u8);
        }
        if *self >> MOST_SPREAD != 0 {
            return put_long(*self, out);
        }
        // As one word, cut to its length: asking for room byte by byte takes most of the time, and
        // so does copying a number of bytes that only turns out.
        let length = self.ilog2() as usize / 7 + 1;
        let more = CONTINUED >> (8 * (9 - length));
        let begin = out.len();
        out.extend_from_slice(&(spread(*self) | more).to_le_bytes());
        out.truncate(begin + length);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut value: u64 = 0;
        for shift in (0..64).step_by(7) {
            let byte = u8::take(from)?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

impl Wire for u8 {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let (first, rest) = from.split_first()?;
        *from = rest;
        Some(*first)
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Smaller integers and newtypes travel as `u64`.
macro_rules! as_u64 {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let to: fn(&$type) -> u64 = $to;
                to(self).put(out);
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                let back: fn(u64) -> Option<$type> = $from;
                back(u64::take(from)?)
            }
        }
    )*};
}
as_u64! {
    u32: |n| u64::from(*n), |n| u32::try_from(n).ok();
    CoreId: |c| u64::from(c.0), |n| {
        u16::try_from(n).ok().filter(|n| usize::from(*n) < MAX_CORES).map(CoreId)
    };
    VcpuId: |v| u64::from(v.0), |n| u32::try_from(n).ok().map(VcpuId);
    Instant: |i| i.ticks(), |n| Some(Instant::from_ticks(n));
    Duration: |d| d.ticks(), |n| Some(Duration::from_ticks(n));
    Limit: |m| m.0.ticks(), |n| Some(Limit(Duration::from_ticks(n)));
    MemoryLimit: |m| m.0, |n| Some(MemoryLimit(n));
}

/// Writes a text as a [`String`] is written.
pub(crate) fn put_text(text: &str, out: &mut Vec<u8>) {
    (text.len() as u64).put(out);
    out.extend_from_slice(text.as_bytes());
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(self, out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = usize::try_from(u64::take(from)?).ok()?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        Self::from_utf8(text.to_vec()).ok()
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = u64::take(from)?;
        // No capacity is reserved: a damaged length must not ask for all memory.
        (0..length).map(|_| T::take(from)).collect()
    }
}

/// As the plain number, of which 0 says none.
macro_rules! non_zero {
    ($($type:ident: $plain:ty;)*) => {$(
        impl Wire for Option<$type> {
            fn put(&self, out: &mut Vec<u8>) {
                self.map_or(0, $type::get).put(out);
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($type::new(<$plain>::take(from)?))
            }
        }
    )*};
}
non_zero! {
    NonZeroU32: u32;
    NonZeroU64: u64;
}

/// Like a `Vec` of the same entries.
impl<T: Wire> Wire for List<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Vec::take(from)?.into())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(None),
            1 => T::take(from).map(Some),
            _ => None,
        }
    }
}

impl<T: Wire> Wire for Box<T> {
    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        T::take(from).map(Self::new)
    }
}

impl<T: Wire, E: Wire> Wire for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                out.push(0);
                value.put(out);
            }
            Err(error) => {
                out.push(1);
                error.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => T::take(from).map(Ok),
            1 => E::take(from).map(Err),
            _ => None,
        }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// What is shared does not travel: it decides what is admitted, and not what is planned.
impl Wire for System {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { cores, classes, vcpus, capacity, ticks_per_ns, resources: _ } = self;
        cores.put(out);
        classes.put(out);
        vcpus.put(out);
        capacity.put(out);
        ticks_per_ns.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self {
            cores: take(from)?,
            classes: take(from)?,
            vcpus: take(from)?,
            capacity: take(from)?,
            ticks_per_ns: take(from)?,
            resources: None,
        })
    }
}

/// Structs travel field by field, in the order given.
macro_rules! fields {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut alloc::vec::Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(out);)*
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                $(let $field = $crate::wire::take(from)?;)*
                Some(Self { $($field),* })
            }
        }
    )*};
}
pub(crate) use fields;
fields! {
    JobId { vcpu, index }
    Job { id, release, deadline }
    Reservation { budget, period, deadline }
    Vcpu { id, reservation, arrival, role, pinned, colors, weight, bandwidth, criticality,
        class, speedup_milli }
    Class { speed_milli }
    Core { class, colors }
    Sample { requests, occupancy, by_core }
    RunQueue { foreground, background, background_allowed, allowance }
}

/// Enums travel as a number and the fields of the variant, in the order given.
macro_rules! variants {
    ($($type:ident { $(
        $number:literal = $variant:ident $(($($tuple:ident),*))? $({$($field:ident),*})?
    ),* $(,)? })*) => {$(
        impl $crate::wire::Wire for $type {
            fn put(&self, out: &mut alloc::vec::Vec<u8>) {
                match self {
                    $(Self::$variant $(($($tuple),*))? $({$($field),*})? => {
                        out.push($number);
                        $($($tuple.put(out);)*)?
                        $($($field.put(out);)*)?
                    })*
                }
            }
            fn take(from: &mut &[u8]) -> Option<Self> {
                match $crate::wire::take::<u8>(from)? {
                    $($number => {
                        $($(let $tuple = $crate::wire::take(from)?;)*)?
                        $($(let $field = $crate::wire::take(from)?;)*)?
                        Some(Self::$variant $(($($tuple),*))? $({$($field),*})?)
                    })*
                    _ => None,
                }
            }
        }
    )*};
}
pub(crate) use variants;
variants! {
    Arrival { 0 = Periodic { offset }, 1 = Sporadic, 2 = None }
    Role { 0 = Main, 1 = Io, 2 = Monitor, 3 = Migration }
    Mode { 0 = Foreground, 1 = Background }
    End { 0 = Blocked, 1 = Preempted, 2 = LimitReached, 3 = Moved, 4 = Metered, 5 = Exited,
        6 = MemorySpent }
    Criticality { 0 = High, 1 = Low }
    ServiceRequest { 0 = Sample, 1 = Move { vcpu, to, colors } }
    Refused { 0 = Start(vcpu), 1 = Stop(vcpu), 2 = Move(vcpu), 3 = Sample }
    Event {
        0 = Ran(segment), 1 = Released(job), 2 = Completed(id), 3 = Woke { vcpu, on_behalf, exact },
        4 = AllowanceSpent { core }, 5 = Sampled(sample), 6 = Arrived(vcpu), 7 = Left(vcpu),
        8 = Changed(vcpu), 9 = ServiceDone(service_request), 10 = Failed { core, what },
        11 = Utilized { busy, of },
    }
}

/// Before the end of a segment whose meters counted something else than reads: what they counted
/// follows. No [`End`] has this number.
const METERED: u8 = u8::MAX;

impl Wire for Segment {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { vcpu, core, mode, from, to, usage, end } = self;
        ((*vcpu, *core), *mode).put(out);
        (*from, *to).put(out);
        usage.service.put(out);
        let Usage { references, reads, writes, instructions, .. } = usage;
        [references, reads, writes, instructions].iter().for_each(|count| count.put(out));
        if let Some(metered) = usage.metered {
            out.push(METERED);
            metered.put(out);
        }
        end.put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let (vcpu, core) = <(VcpuId, CoreId)>::take(from)?;
        let mode = Mode::take(from)?;
        let (begin, to) = <(Instant, Instant)>::take(from)?;
        let service = Duration::take(from)?;
        let (references, reads) = <(u64, u64)>::take(from)?;
        let (writes, instructions) = <(u64, u64)>::take(from)?;
        let mut metered = None;
        if from.first() == Some(&METERED) {
            *from = &from[1..];
            metered = Some(u64::take(from)?);
        }
        let usage = Usage { service, references, reads, writes, metered, instructions };
        Some(Self { vcpu, core, mode, from: begin, to, usage, end: End::take(from)? })
    }
}

/// Above all numbers of VCPUs: the grant's instant follows. Where it has none, nothing of it is
/// written, so that plans without grants ahead are written as they were before there were any.
const AHEAD: u64 = 1 << u32::BITS;
/// Above that: it lapses where its VCPU wakes; its end is silent.
const LAPSES: u64 = AHEAD << 1;
const SILENT: u64 = AHEAD << 2;

impl Wire for Grant {
    fn put(&self, out: &mut Vec<u8>) {
        let marks = [(self.is_ahead(), AHEAD), (self.lapses, LAPSES), (self.silent, SILENT)];
        let marks = marks.into_iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| mark);
        marks.fold(u64::from(self.vcpu.0), |head, mark| head | mark).put(out);
        self.until.put(out);
        // "Never" is what nearly every grant says: one byte instead of ten.
        self.memory.0.wrapping_add(1).put(out);
        if self.is_ahead() {
            self.from.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let (head, until) = <(u64, Limit)>::take(from)?;
        let memory = MemoryLimit(u64::take(from)?.wrapping_sub(1));
        let [is_ahead, lapses, silent] = [AHEAD, LAPSES, SILENT].map(|mark| head & mark != 0);
        let vcpu = VcpuId(u32::try_from(head & !(AHEAD | LAPSES | SILENT)).ok()?);
        let at = if is_ahead { Instant::take(from)? } else { Instant::ZERO };
        let grant = Self { vcpu, until, memory, from: at, lapses, silent };
        (grant.is_ahead() == is_ahead).then_some(grant)
    }
}

impl Wire for Rate {
    fn put(&self, out: &mut Vec<u8>) {
        (self.num(), self.den()).put(out);
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let (num, den) = <(u64, u64)>::take(from)?;
        (den > 0).then(|| Self::new(num, den))
    }
}

impl Wire for Value {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                out.push(0);
                text.put(out);
            }
            Self::Whole(n) => {
                out.push(1);
                n.cast_unsigned().put(out);
            }
            Self::Flag(flag) => {
                out.push(2);
                flag.put(out);
            }
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => String::take(from).map(Self::Text),
            1 => u64::take(from).map(|n| Self::Whole(n.cast_signed())),
            2 => bool::take(from).map(Self::Flag),
            _ => None,
        }
    }
}

impl Wire for Params {
    fn put(&self, out: &mut Vec<u8>) {
        (self.iter().count() as u64).put(out);
        for (name, value) in self.iter() {
            String::from(name).put(out);
            value.put(out);
        }
    }
    fn take(from: &mut &[u8]) -> Option<Self> {
        let mut params = Self::new();
        for (name, value) in Vec::<(String, Value)>::take(from)? {
            params.set(&name, value);
        }
        Some(params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_has_its_instant_where_it_is_ahead_and_else_no_byte_of_it() {
        let plain = Grant::new(VcpuId(u32::MAX), Limit(Duration::from_ticks(5)));
        let ahead = plain.ahead(Instant::from_ticks(9));
        let written = |grant: Grant| {
            let mut bytes = Vec::new();
            grant.put(&mut bytes);
            let mut rest = &bytes[..];
            assert_eq!((Grant::take(&mut rest), rest.len()), (Some(grant), 0));
            bytes
        };
        assert_eq!(written(plain), [255, 255, 255, 255, 15, 5, 0]);
        assert_eq!(written(ahead), [255, 255, 255, 255, 31, 5, 0, 9]);
        // A grant from the first instant on is written without it.
        assert_eq!(Grant::take(&mut &[255, 255, 255, 255, 31, 5, 0, 0][..]), None);
        assert_eq!(Grant::take(&mut &[128, 128, 128, 128, 32, 5, 0][..]), None, "no such VCPU");
    }

    #[test]
    fn a_number_is_written_as_leb128_and_read_as_it_was() {
        let powers = (0..64).map(|bit| 1_u64 << bit);
        for number in powers.flat_map(|power| [power - 1, power, power | 1]).chain([u64::MAX]) {
            let mut bytes = alloc::vec![7];
            number.put(&mut bytes);
            // Seven bits a byte, the lowest first; all but the last have the highest bit set.
            let groups = (0..10).map(|group| (number >> (7 * group)) as u8 & 0x7f);
            let length = (64 - (number | 1).leading_zeros()).div_ceil(7) as usize;
            let follows = |place: usize| if place + 1 < length { 0x80 } else { 0 };
            let plain = groups.take(length).enumerate().map(|(place, bits)| bits | follows(place));
            assert!(bytes.iter().copied().eq([7].into_iter().chain(plain)), "{number}: {bytes:?}");
            let mut rest = &bytes[1..];
            assert_eq!((u64::take(&mut rest), rest), (Some(number), &[][..]));
        }
    }
}
