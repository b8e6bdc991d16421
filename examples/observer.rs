//! An engine of your own that writes a trace: a line fitted by gradient descent, reported to a `Recorder`.
//!
//! `cargo run --release --example observer -- a.jsonl`, again with `b.jsonl`, then `samebits diff a.jsonl b.jsonl`.
//! With a seed (`-- c.jsonl 2`) the diff against `a.jsonl` names the first tensor that parts.

use std::path::PathBuf;

use samebits::bits::philox::{block, stream_key, uniform};
use samebits::trace::observer::{Moment, ObserveError, Observer, Report, TensorView};
use samebits::trace::record::{Dtype, Level, Open, Place, Status};
use samebits::trace::recorder::Recorder;

/// Everything that decides the next step. All of it is reported, the generator too: what is left out is not compared.
struct State {
    weights: [f32; 2],
    /// two words of key, which the seed decides, and the number of draws
    generator: [u32; 3],
}

impl State {
    fn tensors(&self) -> Vec<TensorView<'_>> {
        vec![
            TensorView::new("weights", Dtype::F32, &[2], &self.weights),
            TensorView::new("rng.sample", Dtype::U32, &[3], &self.generator),
        ]
    }

    /// One update on a random point of the line 3x + 1; gives the loss.
    fn update(&mut self) -> f32 {
        let [low, high, draws] = self.generator;
        let x = uniform(block([low, high], draws, 0, 0)[0]);
        self.generator[2] += 1;
        let error = self.weights[0] * x + self.weights[1] - (3.0 * x + 1.0);
        self.weights = [self.weights[0] - 0.1 * error * x, self.weights[1] - 0.1 * error];
        error * error
    }
}

fn train(observer: &mut dyn Observer, seed: u64) -> Result<(), ObserveError> {
    let [low, high] = stream_key(seed, 0, "sample");
    let mut state = State { weights: [0.0; 2], generator: [low, high, 0] };
    let declared = state.tensors().iter().map(TensorView::declaration).collect();
    observer.open(Open { seed: Some(seed), ..Open::new("line 1.0", declared) })?;
    for step in 0..100 {
        let loss = f64::from(state.update());
        let (place, tensors) = (Place::step(step), state.tensors());
        observer.report(Moment::Step, &Report { place, tensors, metrics: vec![("loss", loss)], ops: Vec::new() })?;
    }
    observer.close(Status::Complete, &state.tensors())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("usage: observer TRACE [SEED]")?);
    let seed = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let mut recorder = Recorder::create(&path, Level::Step, false, 1 << 30)?;
    train(&mut recorder, seed)?;
    if let Some(finished) = recorder.finished() {
        println!("{}: root {}", finished.path.display(), finished.root);
    }
    Ok(())
}
