//! The example of the README.

use drivebay_trace::{Given, Order, Reader, Stats, TextFormat, Trace, Writer};

const MSR: &str = "128166372003061629,src1,1,Read,1000,4096,50\n\
                   128166372003061639,src1,1,Write,8192,512,1\n";

#[test]
fn main() {
    let reader = Reader::new(MSR.as_bytes(), "src1.csv", &Given::default()).expect("readable");
    println!("format: {}", reader.format().name());
    let mut trace = Trace::new(reader, Order::Window);
    let mut stats = Stats::default();
    let mut iolog = Writer::new(Vec::new(), TextFormat::Iolog).expect("memory");
    while let Some(requests) = trace.next_block(&mut || true).expect("readable") {
        stats.add(requests).expect("few devices");
        iolog.write(requests).expect("memory");
    }
    let info = stats.info();
    println!("{} reads, {} writes", info.reads, info.writes);
    print!("{}", String::from_utf8_lossy(&iolog.finish().expect("memory")));
    assert_eq!((info.reads, info.writes), (1, 1));
}
