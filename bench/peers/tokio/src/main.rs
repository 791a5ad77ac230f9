//! Savina-style micro-benchmarks for Rust with tokio: one task per actor, one
//! unbounded `mpsc` channel per mailbox, on the multi-threaded scheduler.
//!
//!     bench NAME THREADS [SCALE]
//!
//! With BOUNDED=1 in the environment the one-way streams (count, n1, fjthrput,
//! router) use channels of capacity 1024 with awaited sends (peer "tokiob").

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{self, unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::yield_now;

const CHUNK: i64 = 1000; // messages a driver sends before it yields

type Tx<T> = UnboundedSender<T>;
type Rx<T> = UnboundedReceiver<T>;
type Done = oneshot::Sender<()>;

#[derive(Clone, Copy)]
struct Cfg {
    scale: f64,
    threads: usize,
    peer: &'static str,
    bounded: bool,
}

impl Cfg {
    fn n(&self, base: i64) -> i64 {
        ((base as f64 * self.scale) as i64).max(1)
    }
    fn report(&self, name: &str, secs: f64, msgs: i64, kb: i64) {
        println!(
            "{},{},{},{:.9},{},{:.0},{}",
            name, self.peer, self.threads, secs, msgs, msgs as f64 / secs, kb
        );
    }
}

struct Lcg(u64);

impl Lcg {
    fn new(seed: u64) -> Self {
        Lcg(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(1))
    }
    fn next(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32 % n
    }
}

/// As std::hint::black_box, which is younger than Debian's compiler.
fn keep<T: Copy>(x: T) {
    unsafe { std::ptr::read_volatile(&x) };
}

fn status_kb(key: &str) -> i64 {
    std::fs::read_to_string("/proc/self/status")
        .unwrap()
        .lines()
        .find(|l| l.starts_with(key))
        .and_then(|l| l.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

/// Signals `done` when the last of n actors has finished.
struct Countdown {
    left: AtomicI64,
    done: std::sync::Mutex<Option<Done>>,
}

impl Countdown {
    fn new(n: i64, done: Done) -> Arc<Self> {
        Arc::new(Countdown { left: AtomicI64::new(n), done: std::sync::Mutex::new(Some(done)) })
    }
    fn finish_one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = self.done.lock().unwrap().take().unwrap().send(());
        }
    }
}

fn spawn<F: Future<Output = ()> + Send + 'static>(f: F) {
    tokio::spawn(f);
}

// A mailbox for one-way streams, unbounded or bounded as configured.
#[derive(Clone)]
enum StreamTx {
    Unbounded(Tx<i64>),
    Bounded(mpsc::Sender<i64>),
}

enum StreamRx {
    Unbounded(Rx<i64>),
    Bounded(mpsc::Receiver<i64>),
}

fn stream(c: &Cfg) -> (StreamTx, StreamRx) {
    if c.bounded {
        let (tx, rx) = mpsc::channel(1024);
        (StreamTx::Bounded(tx), StreamRx::Bounded(rx))
    } else {
        let (tx, rx) = unbounded_channel();
        (StreamTx::Unbounded(tx), StreamRx::Unbounded(rx))
    }
}

impl StreamTx {
    #[inline]
    async fn send(&self, x: i64) {
        match self {
            StreamTx::Unbounded(t) => drop(t.send(x)),
            StreamTx::Bounded(t) => drop(t.send(x).await),
        }
    }
}

impl StreamRx {
    #[inline]
    async fn recv(&mut self) -> Option<i64> {
        match self {
            StreamRx::Unbounded(r) => r.recv().await,
            StreamRx::Bounded(r) => r.recv().await,
        }
    }
}

// -- 1 ping-pong, 2 ring ----------------------------------------------------------

fn pingpong(c: Cfg, done: Done) -> i64 {
    let n = c.n(5_000_000);
    let (ping, mut ping_rx) = unbounded_channel::<i64>();
    let (pong, mut pong_rx) = unbounded_channel::<i64>();
    spawn(async move {
        while let Some(x) = ping_rx.recv().await {
            if pong.send(x).is_err() {
                break;
            }
        }
    });
    spawn(async move {
        for i in (0..n).rev() {
            let _ = ping.send(i);
            pong_rx.recv().await;
        }
        let _ = done.send(());
    });
    2 * n
}

fn ring(c: Cfg, done: Done) -> i64 {
    let n = c.n(5_000_000);
    let left = Countdown::new(1, done);
    let (txs, rxs): (Vec<_>, Vec<_>) = (0..100).map(|_| unbounded_channel::<i64>()).unzip();
    for (i, mut rx) in rxs.into_iter().enumerate() {
        let (next, left) = (txs[(i + 1) % 100].clone(), left.clone());
        spawn(async move {
            while let Some(hops) = rx.recv().await {
                if hops == 0 {
                    left.finish_one();
                } else {
                    let _ = next.send(hops - 1);
                }
            }
        });
    }
    let _ = txs[0].send(n);
    n
}

// -- 3 counting, 10 N:1 --------------------------------------------------------------

fn counter(c: &Cfg, want: i64, done: Done) -> StreamTx {
    let (tx, mut rx) = stream(c);
    spawn(async move {
        let mut left = want;
        while rx.recv().await.is_some() {
            left -= 1;
            if left == 0 {
                break;
            }
        }
        let _ = done.send(());
    });
    tx
}

async fn produce(to: StreamTx, n: i64) {
    for i in 1..=n {
        to.send(i).await;
        if i % CHUNK == 0 {
            yield_now().await;
        }
    }
}

fn count(c: Cfg, done: Done) -> i64 {
    let n = c.n(10_000_000);
    spawn(produce(counter(&c, n, done), n));
    n
}

fn n1(c: Cfg, done: Done) -> i64 {
    let n = c.n(100_000);
    let to = counter(&c, 64 * n, done);
    for _ in 0..64 {
        spawn(produce(to.clone(), n));
    }
    64 * n
}

// -- 4 fork-join create -----------------------------------------------------------------

fn fjcreate(c: Cfg, done: Done) -> i64 {
    let n = c.n(1_000_000);
    let left = Countdown::new(n, done);
    spawn(async move {
        for i in 1..=n {
            let (tx, mut rx) = unbounded_channel::<i64>();
            let left = left.clone();
            spawn(async move {
                rx.recv().await;
                left.finish_one();
            });
            let _ = tx.send(i);
            if i % CHUNK == 0 {
                yield_now().await;
            }
        }
    });
    n
}

// -- 5 fork-join throughput, 15 router ------------------------------------------------------

fn workers(c: &Cfg, k: i64, per: i64, done: Done) -> Vec<StreamTx> {
    let left = Countdown::new(k, done);
    (0..k)
        .map(|_| {
            let (tx, mut rx) = stream(c);
            let left = left.clone();
            spawn(async move {
                for _ in 0..per {
                    rx.recv().await;
                }
                left.finish_one();
            });
            tx
        })
        .collect()
}

fn fjthrput(c: Cfg, done: Done) -> i64 {
    let n = c.n(200_000);
    let to = workers(&c, 60, n, done);
    spawn(async move {
        for i in 0..60 * n {
            to[(i % 60) as usize].send(i).await;
            if i % CHUNK == 0 {
                yield_now().await;
            }
        }
    });
    60 * n
}

fn router(c: Cfg, done: Done, routees: i64) -> i64 {
    let per = c.n(2_000_000) / routees;
    let to = workers(&c, routees, per, done);
    let (tx, mut rx) = stream(&c);
    spawn(async move {
        let mut next = 0;
        while let Some(x) = rx.recv().await {
            to[next].send(x).await;
            next = if next + 1 == to.len() { 0 } else { next + 1 };
        }
    });
    spawn(produce(tx, per * routees));
    per * routees
}

// -- 6 big -------------------------------------------------------------------------------------

enum BigMsg {
    Ping(Tx<BigMsg>),
    Pong,
}

fn big(c: Cfg, done: Done) -> i64 {
    let n = c.n(20_000);
    let left = Countdown::new(120, done);
    let (txs, rxs): (Vec<_>, Vec<_>) = (0..120).map(|_| unbounded_channel::<BigMsg>()).unzip();
    let peers: Arc<[Tx<BigMsg>]> = txs.into();
    for (i, mut rx) in rxs.into_iter().enumerate() {
        let (peers, left) = (peers.clone(), left.clone());
        spawn(async move {
            let mut rng = Lcg::new(i as u64 + 1);
            let mut todo = n;
            while let Some(m) = rx.recv().await {
                match m {
                    BigMsg::Ping(from) => drop(from.send(BigMsg::Pong)),
                    BigMsg::Pong if todo > 0 => {
                        todo -= 1;
                        let k = rng.next(120) as usize;
                        let _ = peers[k].send(BigMsg::Ping(peers[i].clone()));
                    }
                    BigMsg::Pong => left.finish_one(),
                }
            }
        });
    }
    for p in peers.iter() {
        let _ = p.send(BigMsg::Pong);
    }
    2 * 120 * n
}

// -- 7 chameneos ---------------------------------------------------------------------------------

enum Cham {
    Meet(i32, Tx<Cham>),
    Change(i32),
    Stop,
    Faded,
}

fn complement(a: i32, b: i32) -> i32 {
    if a == b { a } else { 3 - a - b }
}

async fn chameneo(mall: Tx<Cham>, mut color: i32) {
    let (me, mut rx) = unbounded_channel();
    let mut meetings = 0u64;
    let _ = mall.send(Cham::Meet(color, me.clone()));
    while let Some(m) = rx.recv().await {
        match m {
            Cham::Meet(other, who) => {
                color = complement(color, other);
                let _ = who.send(Cham::Change(color));
            }
            Cham::Change(new) => color = new,
            _ => break,
        }
        meetings += 1;
        let _ = mall.send(Cham::Meet(color, me.clone()));
    }
    keep(meetings);
    let _ = mall.send(Cham::Faded);
}

fn chameneos(c: Cfg, done: Done) -> i64 {
    let n = c.n(2_000_000);
    spawn(async move {
        let (me, mut rx) = unbounded_channel();
        for i in 0..100 {
            spawn(chameneo(me.clone(), i % 3));
        }
        let (mut left, mut faded) = (n, 0);
        let mut waiting: Option<Tx<Cham>> = None;
        while let Some(m) = rx.recv().await {
            match m {
                Cham::Meet(_, who) if left == 0 => drop(who.send(Cham::Stop)),
                Cham::Meet(color, who) => match waiting.take() {
                    None => waiting = Some(who),
                    Some(first) => {
                        let _ = first.send(Cham::Meet(color, who));
                        left -= 1;
                    }
                },
                _ => {
                    faded += 1;
                    if faded == 100 {
                        break;
                    }
                }
            }
        }
        let _ = done.send(());
    });
    4 * n
}

// -- 8 bounded buffer ------------------------------------------------------------------------------

fn process_item(x: f64, r: &mut Lcg) -> f64 {
    x + (r.next(1_000_000) as f64 * 1e-6 + 0.01).ln()
}

enum Bb {
    Data(f64, Tx<()>),
    Avail(Tx<f64>),
    Done,
}

fn bndbuf(c: Cfg, done: Done) -> i64 {
    let n = c.n(10_000);
    spawn(async move {
        let (me, mut rx) = unbounded_channel();
        let mut producers: VecDeque<Tx<()>> = VecDeque::new();
        let mut consumers: VecDeque<Tx<f64>> = VecDeque::new();
        let mut pending: VecDeque<f64> = VecDeque::new();
        for _ in 0..40 {
            let (tx, mut rx) = unbounded_channel::<f64>();
            consumers.push_back(tx.clone());
            let manager = me.clone();
            spawn(async move {
                let (mut item, mut rng) = (0.0, Lcg(7));
                while let Some(x) = rx.recv().await {
                    if x.is_nan() {
                        break; // the stop message
                    }
                    item = process_item(item + x, &mut rng);
                    let _ = manager.send(Bb::Avail(tx.clone()));
                }
            });
        }
        for _ in 0..40 {
            let (tx, mut rx) = unbounded_channel::<()>();
            let _ = tx.send(());
            let manager = me.clone();
            spawn(async move {
                let (mut item, mut rng) = (0.0, Lcg(7));
                for _ in 0..n {
                    rx.recv().await;
                    item = process_item(item, &mut rng);
                    let _ = manager.send(Bb::Data(item, tx.clone()));
                }
                rx.recv().await;
                let _ = manager.send(Bb::Done);
            });
        }
        let mut finished = 0;
        while finished < 40 || consumers.len() < 40 {
            match rx.recv().await.unwrap() {
                Bb::Data(x, from) => {
                    match consumers.pop_front() {
                        Some(cons) => drop(cons.send(x)),
                        None => pending.push_back(x),
                    }
                    if pending.len() >= 50 - 40 {
                        producers.push_back(from);
                    } else {
                        let _ = from.send(());
                    }
                }
                Bb::Avail(who) => match pending.pop_front() {
                    None => consumers.push_back(who),
                    Some(x) => {
                        let _ = who.send(x);
                        if let Some(p) = producers.pop_front() {
                            let _ = p.send(());
                        }
                    }
                },
                Bb::Done => finished += 1,
            }
        }
        for cons in consumers {
            let _ = cons.send(f64::NAN);
        }
        let _ = done.send(());
    });
    4 * 40 * n
}

// -- 9 dictionary -------------------------------------------------------------------------------------

enum Dict {
    Read(i64, Tx<i64>),
    Write(i64, i64, Tx<i64>),
}

fn dict(c: Cfg, done: Done) -> i64 {
    let n = c.n(100_000);
    let left = Countdown::new(20, done);
    let (tx, mut rx) = unbounded_channel();
    spawn(async move {
        let mut map: HashMap<i64, i64> = (0..4096).map(|k| (k, k)).collect();
        while let Some(m) = rx.recv().await {
            match m {
                Dict::Read(k, from) => drop(from.send(map[&k])),
                Dict::Write(k, v, from) => {
                    map.insert(k, v);
                    let _ = from.send(v);
                }
            }
        }
    });
    for i in 0..20 {
        let (dict, left) = (tx.clone(), left.clone());
        spawn(async move {
            let mut rng = Lcg::new(i + 1);
            let (me, mut rx) = unbounded_channel();
            for j in 0..n {
                let k = rng.next(4096) as i64;
                let _ = if rng.next(100) < 10 {
                    dict.send(Dict::Write(k, j, me.clone()))
                } else {
                    dict.send(Dict::Read(k, me.clone()))
                };
                rx.recv().await;
            }
            left.finish_one();
        });
    }
    2 * 20 * n
}

// -- 12 churn ---------------------------------------------------------------------------------------------

fn spawn_mayfly(parent: &Tx<()>) {
    let (tx, mut rx) = unbounded_channel::<Tx<()>>();
    spawn(async move {
        if let Some(from) = rx.recv().await {
            let _ = from.send(());
        }
    });
    let _ = tx.send(parent.clone());
}

fn churn(c: Cfg, done: Done) -> i64 {
    let n = c.n(1_000_000);
    spawn(async move {
        let (me, mut rx) = unbounded_channel();
        let mut todo = n;
        for _ in 0..n.min(100) {
            spawn_mayfly(&me);
            todo -= 1;
        }
        for _ in 0..n {
            rx.recv().await;
            if todo > 0 {
                spawn_mayfly(&me);
                todo -= 1;
            }
        }
        let _ = done.send(());
    });
    n
}

// -- 13 fib ---------------------------------------------------------------------------------------------------

enum Fib {
    Call(i32),
    Result(i64),
}

fn fib_spawn(n: i32, parent: Tx<Fib>) {
    let (me, mut rx) = unbounded_channel();
    let _ = me.send(Fib::Call(n));
    spawn(async move {
        let (mut sum, mut waiting) = (0, 2);
        while let Some(m) = rx.recv().await {
            match m {
                Fib::Call(n) if n <= 2 => {
                    let _ = parent.send(Fib::Result(1));
                    return;
                }
                Fib::Call(n) => {
                    fib_spawn(n - 1, me.clone());
                    fib_spawn(n - 2, me.clone());
                }
                Fib::Result(x) => {
                    sum += x;
                    waiting -= 1;
                    if waiting == 0 {
                        let _ = parent.send(Fib::Result(sum));
                        return;
                    }
                }
            }
        }
    });
}

fn fib(_: Cfg, done: Done) -> i64 {
    spawn(async move {
        let (me, mut rx) = unbounded_channel();
        fib_spawn(27, me);
        assert!(matches!(rx.recv().await, Some(Fib::Result(196418))));
        let _ = done.send(());
    });
    2 * 392_835
}

// -- 14 skynet --------------------------------------------------------------------------------------------------

fn skynet_spawn(parent: Tx<i64>, num: i64, size: i64) {
    spawn(async move {
        if size == 1 {
            let _ = parent.send(num);
            return;
        }
        let (me, mut rx) = unbounded_channel();
        for i in 0..10 {
            skynet_spawn(me.clone(), num + i * (size / 10), size / 10);
        }
        let mut sum = 0;
        for _ in 0..10 {
            sum += rx.recv().await.unwrap();
        }
        let _ = parent.send(sum);
    });
}

fn skynet(_: Cfg, done: Done) -> i64 {
    spawn(async move {
        let (me, mut rx) = unbounded_channel();
        skynet_spawn(me, 0, 1_000_000);
        assert_eq!(rx.recv().await, Some(499_999_500_000));
        let _ = done.send(());
    });
    1_111_111
}

// -- 17 message ubench ---------------------------------------------------------------------------------------------

fn ubench(c: Cfg, done: Done) -> i64 {
    let n = c.n(250_000);
    let left = Countdown::new(40, done);
    let (txs, rxs): (Vec<_>, Vec<_>) = (0..8).map(|_| unbounded_channel::<i64>()).unzip();
    let peers: Arc<[Tx<i64>]> = txs.into();
    for (i, mut rx) in rxs.into_iter().enumerate() {
        let (peers, left) = (peers.clone(), left.clone());
        spawn(async move {
            let mut rng = Lcg::new(i as u64 + 1);
            while let Some(hops) = rx.recv().await {
                if hops == 0 {
                    left.finish_one();
                } else {
                    let _ = peers[rng.next(8) as usize].send(hops - 1);
                }
            }
        });
    }
    for _ in 0..5 {
        for p in peers.iter() {
            let _ = p.send(n - 1);
        }
    }
    40 * n
}

// -- 11 memory ---------------------------------------------------------------------------------------------------------

async fn memory(c: Cfg) {
    const N: i64 = 1_000_000;
    let (done, wait) = oneshot::channel();
    let left = Countdown::new(N, done);
    let mut boxes: Vec<Option<Tx<i64>>> = vec![None; N as usize];
    boxes.iter_mut().for_each(|b| *b = None); // touch
    let before = status_kb("VmRSS");
    let t0 = Instant::now();
    for slot in boxes.iter_mut() {
        let (tx, mut rx) = unbounded_channel();
        *slot = Some(tx);
        let left = left.clone();
        spawn(async move {
            let mut state = 1;
            while let Some(x) = rx.recv().await {
                state += x;
                left.finish_one();
            }
            keep(state);
        });
    }
    c.report("memory", t0.elapsed().as_secs_f64(), N, status_kb("VmRSS") - before);
    let t0 = Instant::now();
    for tx in boxes.iter().flatten() {
        let _ = tx.send(1);
    }
    let _ = wait.await;
    c.report("memwarm", t0.elapsed().as_secs_f64(), N, status_kb("VmRSS") - before);
}

// -- 16 ask latency -----------------------------------------------------------------------------------------------------

async fn ask(c: Cfg) {
    let n = c.n(300_000);
    let (server, mut rx) = unbounded_channel::<(i64, oneshot::Sender<i64>)>();
    spawn(async move {
        while let Some((x, reply)) = rx.recv().await {
            let _ = reply.send(x);
        }
    });
    let t0 = Instant::now();
    let mut lat = tokio::spawn(async move {
        let mut lat = Vec::with_capacity(n as usize);
        for i in 0..n {
            let t = Instant::now();
            let (reply, answer) = oneshot::channel();
            let _ = server.send((i, reply));
            let _ = answer.await;
            lat.push(t.elapsed().as_nanos() as u64);
        }
        lat
    })
    .await
    .unwrap();
    let secs = t0.elapsed().as_secs_f64();
    let kb = status_kb("VmHWM");
    c.report("ask", secs, 2 * n, kb);
    lat.sort_unstable();
    c.report("ask_p50", lat[lat.len() / 2] as f64 * 1e-9, 1, kb);
    c.report("ask_p99", lat[lat.len() * 99 / 100] as f64 * 1e-9, 1, kb);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() < 3 {
        eprintln!("usage: bench NAME THREADS [SCALE]");
        std::process::exit(2);
    }
    let bounded = std::env::var_os("BOUNDED").is_some();
    let c = Cfg {
        threads: args[2].parse().unwrap(),
        scale: args.get(3).map_or(1.0, |s| s.parse().unwrap()),
        peer: if bounded { "tokiob" } else { "tokio" },
        bounded,
    };
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(c.threads).build().unwrap();
    let name = args[1].as_str();
    rt.block_on(async {
        match name {
            "memory" => return memory(c).await,
            "ask" => return ask(c).await,
            _ => (),
        }
        let (done, wait) = oneshot::channel();
        let t0 = Instant::now(); // the actors' setup (at most 120 of them) counts
        let msgs = match name {
            "pingpong" => pingpong(c, done),
            "ring" => ring(c, done),
            "count" => count(c, done),
            "n1" => n1(c, done),
            "fjcreate" => fjcreate(c, done),
            "fjthrput" => fjthrput(c, done),
            "router4" => router(c, done, 4),
            "router16" => router(c, done, 16),
            "router64" => router(c, done, 64),
            "big" => big(c, done),
            "chameneos" => chameneos(c, done),
            "bndbuf" => bndbuf(c, done),
            "dict" => dict(c, done),
            "churn" => churn(c, done),
            "fib" => fib(c, done),
            "skynet" => skynet(c, done),
            "ubench" => ubench(c, done),
            _ => {
                eprintln!("no such benchmark: {name}");
                std::process::exit(2);
            }
        };
        let _ = wait.await;
        c.report(name, t0.elapsed().as_secs_f64(), msgs, status_kb("VmHWM"));
    });
    std::process::exit(0); // the tasks left over need no orderly shutdown
}
