//! A failing case is made as small as it gets, whatever is simulated.

/// Takes away from a failing case whatever can go while it still fails: of the cases that are one
/// step `simpler` the first that still does, again and again, `tries` times in all.
pub(crate) fn smallest<C>(
    mut case: C,
    mut tries: u32,
    simpler: impl Fn(&C) -> Vec<C>,
    fails: impl Fn(&C) -> bool,
) -> C {
    'smaller: loop {
        for smaller in simpler(&case) {
            tries -= 1;
            if tries == 0 {
                return case;
            }
            if fails(&smaller) {
                case = smaller;
                continue 'smaller;
            }
        }
        return case;
    }
}

/// The same where a rule was broken as `why` says: the same rule is to be broken, with whatever
/// numbers.
pub(crate) fn smallest_of_rule<C, T>(
    case: C,
    why: &str,
    simpler: impl Fn(&C) -> Vec<C>,
    check: impl Fn(&C) -> Result<T, String>,
) -> C {
    let rule = |why: &str| why.replace(|c: char| c.is_ascii_digit(), "");
    let broken = rule(why);
    smallest(case, 300, simpler, |case| check(case).is_err_and(|why| rule(&why) == broken))
}
