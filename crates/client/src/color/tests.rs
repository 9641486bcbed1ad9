use super::*;

#[test]
fn sets_of_colours_are_checked() {
    for (mask, colors) in [(0, 4), (16, 4), (1, 0), (1, 65), (u64::MAX, 63)] {
        let error = ColorSet::new(mask, colors).expect_err("no such set");
        assert!(error.to_string().contains("no set"), "{error}");
    }
    let all = ColorSet::new(u64::MAX, 64).expect("all of 64");
    assert!((0..200).all(|frame| all.has(frame)));
    let some = ColorSet::new(0b1001, 16).expect("two of 16");
    let frames: Vec<u64> = (0..40).filter(|frame| some.has(*frame)).collect();
    assert_eq!(frames, [0, 3, 16, 19, 32, 35]);
    assert_eq!(some.frames_for(10), 80);
    assert_eq!(some.to_string(), "2 of 16 colours (0x9)");
}
