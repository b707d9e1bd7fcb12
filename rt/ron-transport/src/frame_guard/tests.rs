//! Frames that pass the guard in pieces of every size.

use std::{
    pin::pin,
    sync::atomic::AtomicUsize,
    task::{Wake, Waker},
};

use super::{scan::PREFACE, *};

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("a short frame");
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

fn requests(frames: &[Vec<u8>]) -> Vec<u8> {
    [vec![b'-'; PREFACE], frames.concat()].concat()
}

/// What becomes of bytes that come in two pieces: the changed bytes, or `None` for the end of the connection.
fn in_two(sender: Sender, bytes: &[u8], cut: usize) -> Option<Vec<u8>> {
    let (mut scan, mut bytes) = (Scan::new(sender), bytes.to_vec());
    let (first, second) = bytes.split_at_mut(cut);
    scan.look(first, usize::MAX).ok()?;
    scan.look(second, usize::MAX).ok()?;
    Some(bytes)
}

/// However the bytes are cut, the frame at `at` loses its flag or the connection ends; or all passes as it is.
#[track_caller]
fn judged(sender: Sender, bytes: &[u8], bad_frame: Option<usize>) {
    for cut in 0..=bytes.len() {
        let after = in_two(sender, bytes, cut);
        match (bad_frame, after) {
            (None, after) => assert_eq!(after.as_deref(), Some(bytes), "cut at {cut}"),
            (Some(_), None) => {}
            (Some(at), Some(after)) => {
                let mut expected = bytes.to_vec();
                expected[at + 4] &= !END_STREAM;
                assert_eq!(after, expected, "cut at {cut}");
            }
        }
    }
    if let Some(at) = bad_frame.filter(|at| bytes[at + 3] == HEADERS && bytes[at + 4] & END_HEADERS != 0) {
        assert!(in_two(sender, bytes, at).is_some(), "a frame that comes whole costs its stream alone");
    }
}

#[test]
fn trailers_of_requests_lose_their_end_if_they_have_pseudo_header_fields() {
    // `:method: POST`, and `:authority: t`, which goes into the table.
    let head = frame(HEADERS, END_HEADERS, 1, b"\x83\x41\x01t");
    let data = frame(0, 0, 1, b"data");
    let flags = END_HEADERS | END_STREAM;
    for good in [&b"\x00\x01x\x02:y"[..], b"\x0f\x0d\x01y"] {
        let all = [head.clone(), data.clone(), frame(HEADERS, flags, 1, good), head.clone()];
        judged(Sender::Client, &requests(&all), None);
    }
    let at = PREFACE + head.len() + data.len();
    for bad in [&b"\x83"[..], b"\xbe", b"\x00\x02:x\x01y", b"\x00\x01x\x01y\x84"] {
        let all = [head.clone(), data.clone(), frame(HEADERS, flags, 1, bad)];
        judged(Sender::Client, &requests(&all), Some(at));
    }
    // With a priority and padding, and in several frames, the last of which is empty.
    let padded = [b"\x02\0\0\0\0\0", &b"\x83"[..], b"--"].concat();
    let all = [head.clone(), data.clone(), frame(HEADERS, flags | 0x28, 1, &padded)];
    judged(Sender::Client, &requests(&all), Some(at));
    let several = [
        head,
        data,
        frame(HEADERS, END_STREAM, 1, b"\x00\x02:x"),
        frame(CONTINUATION, 0, 1, b"\x01y"),
        frame(CONTINUATION, END_HEADERS, 1, b""),
    ];
    let bytes = requests(&several);
    for cut in 0..=bytes.len() {
        assert_eq!(in_two(Sender::Client, &bytes, cut), None, "cut at {cut}");
    }
}

#[test]
fn trailers_of_responses_are_told_from_heads_after_informational_ones() {
    let flags = END_HEADERS | END_STREAM;
    let informational = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103");
    let head = frame(HEADERS, END_HEADERS, 1, b"\x88");
    let only_head = frame(HEADERS, flags, 1, b"\x88");
    let trailers = frame(HEADERS, flags, 1, b"\x00\x01x\x01y");
    judged(Sender::Server, &[informational.clone(), informational.clone(), only_head.clone()].concat(), None);
    judged(Sender::Server, &[informational.clone(), head.clone(), trailers.clone()].concat(), None);
    // The next stream starts again.
    let second = frame(HEADERS, flags, 3, b"\x88");
    judged(Sender::Server, &[head.clone(), trailers, second].concat(), None);
    let at = informational.len() + head.len();
    judged(Sender::Server, &[informational, head, only_head].concat(), Some(at));
}

#[test]
fn heads_of_responses_have_no_pseudo_header_fields_of_requests() {
    let bytes = frame(HEADERS, END_HEADERS, 1, b"\x88\x84");
    for cut in 0..=bytes.len() {
        assert_eq!(in_two(Sender::Server, &bytes, cut), None, "cut at {cut}");
    }
    judged(Sender::Client, &requests(&[bytes]), None);
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_connection_that_opens_many_streams_lets_others_have_their_turns() {
    let heads: Vec<_> =
        (0..20).map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, b"\x82")).collect();
    let all = requests(&heads);
    let (woken, mut read) = (Arc::new(Woken::default()), Vec::new());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    let opened = Turns::default();
    let mut guarded = pin!(Guarded::of_client(&all[..], opened.clone(), usize::MAX));
    let mut turns = Vec::new();
    loop {
        let mut space = [0; 1000];
        let mut buf = ReadBuf::new(&mut space);
        match guarded.as_mut().poll_read(&mut cx, &mut buf) {
            Poll::Ready(Ok(())) if buf.filled().is_empty() => break,
            Poll::Ready(Ok(())) => read.extend_from_slice(buf.filled()),
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Pending => {
                assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1, "it asks for its next turn");
                let again = guarded.as_mut().poll_read(&mut cx, &mut buf);
                assert!(again.is_pending(), "asking twice in a turn gets nothing more");
                woken.0.store(0, Ordering::Relaxed);
                turns.push((read.len() - PREFACE) / heads[0].len());
                opened.begin();
            }
        }
    }
    let expected: Vec<_> = (1..=heads.len() / STREAMS_PER_TURN).map(|turn| turn * STREAMS_PER_TURN).collect();
    assert_eq!(turns, expected);
    assert_eq!(read, all, "nothing is lost or changed");
}

#[test]
fn streams_that_are_reset_at_once_are_left_for_the_library_to_count() {
    let reset = |stream| frame(3, 0, stream, &[0, 0, 0, 8]);
    let both =
        |n: u8| [frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, b"\x82"), reset(2 * n + 1)].concat();
    let mut at_once = requests(&(0..100).map(both).collect::<Vec<_>>());
    assert_eq!(Scan::new(Sender::Client).look(&mut at_once, STREAMS_PER_TURN), Ok(at_once.len()));
    // The same stream over and over makes no room for others.
    let open = |n: u8| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, b"\x82");
    let first = u8::try_from(STREAMS_PER_TURN - 1).expect("few");
    let repeated = (0..first).map(open).chain((0..9).map(|_| reset(1))).chain((first..20).map(open));
    let mut scan = Scan::new(Sender::Client);
    let mut bytes = requests(&repeated.collect::<Vec<_>>());
    let looked_at = scan.look(&mut bytes, STREAMS_PER_TURN).expect("sound");
    assert_eq!((looked_at - PREFACE - 9 * 13) / open(0).len(), STREAMS_PER_TURN + 1);
    scan.begin_turn();
    assert_eq!(scan.opened_in_turn(), 0);
}

#[test]
fn frames_that_carry_nothing_are_counted_wherever_they_are_cut() {
    let (data, settings, window_update) = (0, 4, 8);
    let idle = [
        frame(window_update, 0, 1, &[0, 0, 0, 1]),
        frame(settings, 0, 0, &[]),
        frame(6, 0, 0, &[7; 8]),
        frame(2, 0, 1, &[0; 5]),
        frame(3, 0, 1, &[0; 4]),
        frame(data, 0, 1, &[]),
        frame(data, 8, 1, &[3, 0, 0, 0]),
        frame(0x20, 0, 1, &[1]),
    ];
    let useful =
        [frame(HEADERS, END_HEADERS, 1, b"\x88"), frame(data, 0, 1, b"x"), frame(data, END_STREAM, 1, &[])];
    let all = [useful.concat(), idle.concat()].concat();
    for cut in 0..=all.len() {
        let (mut scan, mut bytes) = (Scan::new(Sender::Server), all.clone());
        let (first, second) = bytes.split_at_mut(cut);
        scan.look(first, usize::MAX).expect("sound");
        let counted = scan.take_idle();
        scan.look(second, usize::MAX).expect("sound");
        assert_eq!((counted + scan.take_idle(), scan.take_idle()), (8, 0), "cut at {cut}");
    }
}

#[test]
fn fields_that_open_no_stream_and_heads_that_are_too_long_count_too() {
    let flags = END_HEADERS | END_STREAM;
    let counted = |frames: &[Vec<u8>]| {
        // A little more than one `:method: GET`.
        let mut scan = Scan::new(Sender::Client).with_longest_head(43);
        scan.look(&mut requests(frames), usize::MAX).expect("sound");
        scan.take_idle()
    };
    let heads = [frame(HEADERS, flags, 1, b"\x82"), frame(HEADERS, flags, 3, b"\x82")];
    assert_eq!(counted(&heads), 0);
    let fields = [1, 64, 200].map(|bytes| frame(HEADERS, END_HEADERS, 1, &b"\x90".repeat(bytes)));
    assert_eq!(counted(&[&heads[..], &fields].concat()), 1 + 2 + 4);
    let in_two = [frame(HEADERS, 0, 3, &b"\x90".repeat(63)), frame(CONTINUATION, END_HEADERS, 3, b"\x90")];
    assert_eq!(counted(&[&heads[..], &in_two].concat()), 2);
    let long = frame(HEADERS, flags, 5, b"\x82\x82");
    assert_eq!(counted(&[&heads[..], &[long]].concat()), flood::FRAMES_PER_LONG_HEAD);
}

/// What a peer's bytes come to: as many as passed, or the error.
fn passed(mut guarded: Guarded<&[u8]>) -> io::Result<usize> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut passed = 0;
    loop {
        let mut space = [0; 8192];
        let mut buf = ReadBuf::new(&mut space);
        match Pin::new(&mut guarded).poll_read(&mut cx, &mut buf) {
            Poll::Ready(Ok(())) if buf.filled().is_empty() => return Ok(passed),
            Poll::Ready(read) => read.map(|()| passed += buf.filled().len())?,
            Poll::Pending => panic!("all is there"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_frames_that_carry_nothing_ends_the_connection() {
    let many = frame(8, 0, 0, &[0, 0, 0, 1]).repeat(flood::FREE as usize);
    assert_eq!(passed(Guarded::of_server(&many)).ok(), Some(many.len()), "as many as may come");
    let more = [many, frame(6, 0, 0, &[7; 8])].concat();
    assert!(passed(Guarded::of_server(&more)).is_err());
    let turns = Turns::default();
    assert!(passed(Guarded::of_client(&requests(&[more]), turns.clone(), usize::MAX)).is_err());
    assert!(turns.were_flooded());
}
