//! `canny`: Canny edge detection on one 720x480 picture, again and again (the application of
//! MARACAS, RTSS 2016, section VI.B). One iteration = one picture.

use super::pace::{Kernel, drive};
use maracas_console::failure::Failure;
use std::hint::black_box;

/// Detect edges in a 720x480 picture (the application of MARACAS, section VI.B)
///
/// Example: maracas work canny --report 5s
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Number of threads, each with a picture of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    common: super::Common,
}

// The paper's picture.
const WIDTH: usize = 720;
const HEIGHT: usize = 480;

// Thresholds on the gradient, in grey levels: low keeps weak edges that touch strong ones. Chosen
// so that the picture's shapes are found and its shading is not.
const LOW: f32 = 50.0;
const HIGH: f32 = 100.0;

/// A synthetic picture: shaded ground, discs and a checkered field, so that there are straight,
/// curved and no edges at all.
fn picture() -> Picture {
    Picture::new(WIDTH, HEIGHT, |x, y| {
        let shade = x * 60 / WIDTH + y * 60 / HEIGHT;
        let (dx, dy) = (x as i32 % 240 - 120, y as i32 % 240 - 120);
        let disc = dx * dx + dy * dy < 80 * 80;
        let checkered = x > 480 && y > 240 && (x / 24 + y / 24) % 2 == 0;
        (shade + if disc { 120 } else { 0 } + if checkered { 15 } else { 0 }) as f32
    })
}

/// One number for each pixel, row by row.
struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<f32>,
}

impl Picture {
    fn new(width: usize, height: usize, of: impl Fn(usize, usize) -> f32) -> Self {
        let pixels = (0..width * height).map(|at| of(at % width, at / width)).collect();
        Self { width, height, pixels }
    }
    /// Beyond its edges a picture goes on as it ends.
    fn at(&self, x: usize, y: usize, dx: isize, dy: isize) -> f32 {
        let x = x.saturating_add_signed(dx).min(self.width - 1);
        let y = y.saturating_add_signed(dy).min(self.height - 1);
        self.pixels[y * self.width + x]
    }
    /// Each pixel as a weighted sum of those in its row (`right` 1) or column (`down` 1).
    fn along(&self, right: isize, down: isize, weights: &[f32]) -> Self {
        let half = weights.len() as isize / 2;
        Self::new(self.width, self.height, |x, y| {
            let weighed = weights.iter().zip(-half..);
            weighed.map(|(weight, n)| weight * self.at(x, y, n * right, n * down)).sum()
        })
    }
}

/// Weights of a Gaussian with a standard deviation of 1.4 pixels, whose sum is 1.
const BLUR: [f32; 7] = [0.029, 0.103_8, 0.223_2, 0.288, 0.223_2, 0.103_8, 0.029];

/// Where the edges are: of the blurred picture the pixels where brightness changes most along its
/// own direction, by more than `high`, or by more than `low` next to another one (J. Canny, "A
/// Computational Approach to Edge Detection", PAMI 8(6), 1986; gradients by Sobel's operator).
fn canny(picture: &Picture, low: f32, high: f32) -> Vec<bool> {
    let blurred = picture.along(1, 0, &BLUR).along(0, 1, &BLUR);
    let across = blurred.along(1, 0, &[-1.0, 0.0, 1.0]).along(0, 1, &[1.0, 2.0, 1.0]);
    let down = blurred.along(0, 1, &[-1.0, 0.0, 1.0]).along(1, 0, &[1.0, 2.0, 1.0]);
    let (width, height) = (picture.width, picture.height);
    let steep =
        Picture::new(width, height, |x, y| across.at(x, y, 0, 0).hypot(down.at(x, y, 0, 0)));
    let is_crest = |at: usize| {
        let (x, y, here) = (at % width, at / width, steep.pixels[at]);
        let (gx, gy) = (across.pixels[at], down.pixels[at]);
        // The neighbour towards which brightness grows, in steps of 45 degrees: tan 22.5 = 0.414.
        let step = |own: f32, other: f32| {
            if own.abs() > 0.414 * other.abs() { own.signum() as isize } else { 0 }
        };
        let (dx, dy) = (step(gx, gy), step(gy, gx));
        // Of two equal ones the first counts, so that an edge is one pixel wide.
        here >= steep.at(x, y, dx, dy) && here > steep.at(x, y, -dx, -dy)
    };
    let crest = |at: usize, least: f32| steep.pixels[at] >= least && is_crest(at);
    let mut edges = vec![false; width * height];
    let mut open: Vec<usize> = (0..width * height).filter(|at| crest(*at, high)).collect();
    while let Some(at) = open.pop() {
        if std::mem::replace(&mut edges[at], true) {
            continue;
        }
        let (x, y) = (at % width, at / width);
        for y in y.saturating_sub(1)..=(y + 1).min(height - 1) {
            for x in x.saturating_sub(1)..=(x + 1).min(width - 1) {
                let next = y * width + x;
                if !edges[next] && crest(next, low) {
                    open.push(next);
                }
            }
        }
    }
    edges
}

struct Canny {
    picture: Picture,
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

    /// Columns and rows of the edges in a picture of 60 x 40.
    fn edges(of: impl Fn(usize, usize) -> f32) -> Vec<(usize, usize)> {
        let found = canny(&Picture::new(60, 40, of), LOW, HIGH);
        (0..found.len()).filter(|at| found[*at]).map(|at| (at % 60, at / 60)).collect()
    }

    #[test]
    fn a_step_is_an_edge_one_pixel_wide() {
        let step = |is_bright: bool| if is_bright { 200.0 } else { 50.0 };
        for found in [edges(|x, _| step(x > 30)), edges(|x, _| step(x <= 30))] {
            assert!(found.len() == 40 && found.iter().all(|(x, _)| [30, 31].contains(x)));
        }
        for found in [edges(|_, y| step(y > 20)), edges(|_, y| step(y <= 20))] {
            assert!(found.len() == 60 && found.iter().all(|(_, y)| [20, 21].contains(y)));
        }
    }

    #[test]
    fn slopes_and_faint_steps_are_none_but_go_on_where_an_edge_begins() {
        assert_eq!(edges(|x, y| (x + y) as f32), []);
        let step = |x: usize, height: usize| if x > 30 { height as f32 } else { 0.0 };
        assert_eq!(edges(|x, _| step(x, 30)), []);
        // The same height at its lower end alone.
        let found = edges(|x, y| step(x, 30 + 4 * (39 - y)));
        assert!((0..40).all(|row| found.iter().any(|(x, y)| *y == row && x.abs_diff(30) < 2)));
    }

    #[test]
    fn a_disc_has_its_circle() {
        let from_centre = |x: usize, y: usize| (x as f32 - 30.0).hypot(y as f32 - 20.0);
        let found = edges(|x, y| if from_centre(x, y) < 12.0 { 150.0 } else { 10.0 });
        assert!(found.iter().all(|(x, y)| (from_centre(*x, *y) - 12.0).abs() < 2.0), "{found:?}");
        // In steps to neighbours its circumference is 12 * 8 / sqrt(2) = 68, without slanting ones
        // 12 * 8.
        assert!((68..=96).contains(&found.len()), "{}", found.len());
    }

    #[test]
    fn edges_lie_on_the_discs() {
        let found = canny(&picture(), LOW, HIGH).into_iter().filter(|is_edge| *is_edge).count();
        // Six discs of circumference 2 pi 80 = 503.
        assert!((2_000..8_000).contains(&found), "{found} edge pixels");
    }
}
