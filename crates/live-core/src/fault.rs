//! Mistakes that tests plant, to see that they are found.

/// A mistake in the state of a core, or of a decider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The alarm for the end of a budget comes again and again, ever sooner: no sleep has a floor.
    PeriodicAlarm,
    /// The time of the next look is not forgotten when it has passed.
    MissingDisarm,
    /// A VCPU that held freezing off and lets go is not counted out.
    LeakedHold,
    /// What a guardian did to priorities is not set right afterwards.
    StalePriority,
    /// An execution that ends because its limit was reached is reported twice.
    CountedTwice,
    /// What the decider of a group decides for another core than that of its agent is not said
    /// there.
    UntoldCore,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PeriodicAlarm,
        Self::MissingDisarm,
        Self::LeakedHold,
        Self::StalePriority,
        Self::CountedTwice,
        Self::UntoldCore,
    ];
}
