//! The engine learns what can be learned, and nothing where there is nothing.

use samebits::engine::cpu::{Cpu, Faults, Network, SimdPath};
use samebits::engine::evaluator::evaluate;
use samebits::engine::session::{Session, load_market};
use samebits::engine::state::initial_parameters;
use samebits::engine::trainer::shape;
use samebits::scenario::request::RunRequest;
use samebits::scenario::settings::Settings;
use samebits::trace::observer::Silent;

const SETTINGS: &str = r#"
[engine]
size = "tiny"

[market]
bars_per_year = 252

[market.synthetic]
seed = 11
bars = 12200
pattern = "cycle"
period = 16
strength = 0.8

[folds]
train = 4000
validation = 8000
embargo = 64
count = 1

[training]
cycles = 1500
epsilon_steps = 1000
episode_bars = 128
lr = 0.001
gamma = 0.5
tau = 0.01
"#;

fn settings(seed: u64, shuffle: bool) -> Settings {
    let mut settings: Settings = toml::from_str(SETTINGS).unwrap();
    settings.engine.seed = seed;
    settings.market.synthetic.as_mut().unwrap().shuffle = shuffle;
    settings
}

/// Validation Sharpe after training minus before.
fn gain(seed: u64, shuffle: bool) -> f64 {
    let settings = settings(seed, shuffle);
    let market = load_market(&settings, None).unwrap();
    let cpu = Cpu::new(SimdPath::best(), 1, Faults::default()).unwrap();
    let shape = shape(&settings.engine.size.dimensions());
    let untrained = Network::new(shape, &initial_parameters(&shape, seed, 0));
    let mut request = RunRequest::new(settings.clone(), None);
    request.threads = Some(1);
    let session = Session::new(request).unwrap();
    let before = evaluate(&cpu, &untrained, &market, &session.folds()[0].validation, 32, 252.0).metrics;
    let after = session.run(&mut Silent, &mut |_| {}).unwrap().folds[0].metrics.unwrap();
    println!("seed {seed} shuffle {shuffle}: Sharpe {:.3} -> {:.3}", before.sharpe, after.sharpe);
    after.sharpe - before.sharpe
}

/// Would fail if training did not improve the policy on a market with a planted pattern (costs 0, ten fixed seeds).
#[test]
fn a_planted_pattern_is_learned() {
    let gains: Vec<f64> = (1..=10).map(|seed| gain(seed, false)).collect();
    let enough = gains.iter().filter(|g| **g >= 1.0).count();
    assert!(enough >= 9, "gains in validation Sharpe: {gains:?}");
}

/// Would fail if the engine saw the future: the same market's returns in random order hold nothing to learn.
#[test]
fn nothing_is_learned_from_shuffled_returns() {
    let gains: Vec<f64> = (1..=10).map(|seed| gain(seed, true)).collect();
    let mean = gains.iter().fold(0.0, |s, g| s + g) / gains.len() as f64;
    assert!(mean < 0.2, "mean gain {mean} of {gains:?}");
}
