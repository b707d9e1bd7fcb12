//! A server whose answers a test writes itself.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};

/// Starts a server that has each connection served by `serve`, on a thread of its own.
pub(crate) fn start(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            // An end that the client makes is no failure of a test.
            thread::spawn(move || serve(stream).ok());
        }
    });
    addr
}

/// Starts a server that answers each request, without a body, with the JSON text that `answer` makes of its head.
pub(crate) fn json_server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> SocketAddr {
    head_server(move |head| {
        let body = answer(head);
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    })
}

/// Starts a server that answers each request, without a body, with what `answer` makes of its head.
pub(crate) fn head_server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> SocketAddr {
    start(move |stream| serve(stream, &answer))
}

/// Answers each request of a connection, without a body, with what `answer` makes of its head.
pub(crate) fn serve(stream: TcpStream, answer: &(impl Fn(&str) -> String + ?Sized)) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        reader.get_mut().write_all(answer(&head).as_bytes())?;
    }
}
