//! `canny`: Canny edge detection on one 720x480 picture, again and again (the application of
//! MARACAS, RTSS 2016, section VI.B). One iteration = one picture.

use super::pace::{Kernel, drive};
use crate::failure::Failure;
use image::{GrayImage, Luma};
use imageproc::edges::canny;
use std::hint::black_box;

/// Detect edges in a 720x480 picture (the application of MARACAS, section VI.B)
///
/// Example: maracas work canny --report 5s
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Number of threads, each with a picture of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    common: super::Common,
}

// The paper's picture.
const WIDTH: u32 = 720;
const HEIGHT: u32 = 480;

// Thresholds on the gradient, in grey levels: low keeps weak edges that touch strong ones. Chosen
// so that the picture's shapes are found and its shading is not.
const LOW: f32 = 50.0;
const HIGH: f32 = 100.0;

/// A synthetic picture: shaded ground, discs and a checkered field, so that there are straight,
/// curved and no edges at all.
fn picture() -> GrayImage {
    GrayImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let shade = x * 60 / WIDTH + y * 60 / HEIGHT;
        let (dx, dy) = (x as i32 % 240 - 120, y as i32 % 240 - 120);
        let disc = dx * dx + dy * dy < 80 * 80;
        let checkered = x > 480 && y > 240 && (x / 24 + y / 24) % 2 == 0;
        Luma([shade as u8 + if disc { 120 } else { 0 } + if checkered { 15 } else { 0 }])
    })
}

struct Canny {
    picture: GrayImage,
}

impl Kernel for Canny {
    fn pass(&mut self) -> u64 {
        black_box(canny(black_box(&self.picture), LOW, HIGH));
        1
    }
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    drive("canny", args.threads, &args.common, |_| Canny { picture: picture() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lie_on_the_discs() {
        let edges = canny(&picture(), LOW, HIGH);
        let found = edges.pixels().filter(|pixel| pixel.0[0] > 0).count();
        // Six discs of circumference 2 pi 80 = 503.
        assert!((2_000..8_000).contains(&found), "{found} edge pixels");
    }
}
