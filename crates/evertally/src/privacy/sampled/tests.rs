use super::*;
#[test]
fn probe() {
    for q in [1.0 / 2000.0, 0.002, 0.005, 0.01, 0.1] {
        for eps in [0.5, 1.0, 2.0, 4.0, 8.0] {
            let shape = SampledGaussians::new(&[SampledGaussian::new(q, 1.0, 2000).unwrap()]).unwrap();
            let t = std::time::Instant::now();
            let s = shape.noise_factor_for(Epsilon::new(eps).unwrap(), Delta::new(1e-5).unwrap()).unwrap();
            let t1 = t.elapsed();
            let own = shape.scaled(s).unwrap();
            let t = std::time::Instant::now();
            let d = own.delta(Epsilon::new(eps).unwrap());
            println!("{q} {eps} {s} {t1:?} delta {d:e} {:?}", t.elapsed());
        }
    }
}
