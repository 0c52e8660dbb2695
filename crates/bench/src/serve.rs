//! `packhorse serve`: lets others measure against this machine.
//!
//! It is the passive side of `packhorse bench --peer`. Whoever has the address may measure, one client at a time; he can
//! have measurements made, of bounded length, and nothing else. The measuring is done by a process of its own for each
//! client, so that whatever becomes of it, it can be ended (see [`crate::remote`] for the talk).

use std::io::Write;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use packhorse::{Builder, Endpoint, Error, Greeting, Number, Peer, Placement, Sending, Wanted};

use crate::hosts::Stand;
use crate::machine::{InterfaceFacts, address_for_others};
use crate::peer::{Order, Report};
use crate::process::{Heard, Process};
use crate::remote::{
    ANSWER, BEAT_EVERY, Hello, ORDER, Port, SILENCE_MAX, WORD_LEN_MAX, check_job, check_line,
    port_of,
};
use crate::system::{Job, Role};

const EXAMPLES: &str = "\
Examples:
  packhorse serve                          on any free port
  packhorse serve --ports 7000-7009        where a firewall lets only some ports in (open them for UDP and TCP)
  packhorse serve --bind 192.168.1.5       on one network of several
  packhorse serve --name 42                found by this host's name and 42, by whoever asks, or with PACKHORSE_SECRET_FILE
                                           by holders of the same secret

Then, on another machine, with the address that it printed, or by its number:
  packhorse bench pingpong --peer ph1:…
  packhorse compare --quick --peer ph1:…
  packhorse compare --quick --peer node7:42";

/// The talk, the two sockets of the bare link, and one to spare.
const PORT_COUNT_MIN: usize = 4;
/// A client that asks for nothing for so long makes room for others.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// What clients are told that find it by its number.
const GREETING: Greeting = *b"packhorse serve\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
/// Closing waits no longer for a client that may be gone.
const LINGER: Duration = Duration::from_millis(500);

/// Let other machines measure against this one.
///
/// Prints an address, then serves whoever has it, one at a time, until ctrl-C. They can have measurements made, of bounded
/// length, and nothing else.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Address of this machine to serve on; without it, the one that the default route uses.
    #[arg(long, value_name = "IP")]
    bind: Option<IpAddr>,
    /// Take all ports from this range, such as 7000-7009.
    #[arg(long, value_name = "LO-HI", value_parser = parse_ports)]
    ports: Option<RangeInclusive<u16>>,
    /// Be found by this number, 0 to 65535, at this host: UDP port 61440 + N for those below 1024, port N for others.
    #[arg(long, value_name = "N")]
    name: Option<u16>,
    /// Who moves Packhorse's messages on this side (see `packhorse bench pingpong --help`); as the client says without it.
    #[arg(long, value_name = "WHO", value_parser = ["inline", "thread"])]
    placement: Option<String>,
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let ends = text.split_once('-').and_then(|(low, high)| {
        Some((low.trim().parse::<u16>().ok()?, high.trim().parse::<u16>().ok()?))
    });
    match ends {
        Some((low, high))
            if low > 0 && usize::from(high) + 1 >= usize::from(low) + PORT_COUNT_MIN =>
        {
            Ok(low..=high)
        }
        Some(_) => Err(format!(
            "{text:?} has too few ports; {PORT_COUNT_MIN} are needed, such as 7000-7009"
        )),
        None => Err(format!("{text:?} is no range of ports; it looks like 7000-7009")),
    }
}

/// `packhorse serve`: until the process is ended.
pub fn run(args: &ServeArgs) -> Result<()> {
    let endpoint = open(args)?;
    let place = port_of(&endpoint.address())?;
    let facts = InterfaceFacts::of_address(place.ip())?;
    announce(&endpoint, &facts, place)?;
    let mut server = Server {
        endpoint,
        ip: place.ip(),
        facts,
        ports: args.ports.clone(),
        placement: args.placement.clone(),
        session: None,
    };
    loop {
        server.turn()?;
    }
}

fn open(args: &ServeArgs) -> Result<Endpoint> {
    let open = |bind: Option<IpAddr>| {
        let mut builder = Builder::new().placement(Placement::Thread).linger(LINGER);
        if std::env::var_os("PACKHORSE_DISCOVER").is_none() {
            builder = builder.discoverable(true); // who serves wants to be found
        }
        if let Some(bind) = bind {
            builder = builder.bind(bind);
        }
        if let Some(ports) = &args.ports {
            builder = builder.ports(ports.clone());
        }
        if let Some(number) = args.name {
            builder = builder.named(number).greeting(GREETING);
        }
        builder.open()
    };
    let endpoint = open(args.bind)?;
    let is_local = port_of(&endpoint.address())?.ip().is_loopback();
    if is_local && args.bind.is_none() && std::env::var_os("PACKHORSE_BIND").is_none() {
        // Without a default route, as on a switch of one's own, nothing says which address others know.
        if let Some(bind) = address_for_others() {
            drop(endpoint);
            return Ok(open(Some(bind))?);
        }
    }
    Ok(endpoint)
}

fn announce(endpoint: &Endpoint, facts: &InterfaceFacts, place: Port) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "serving on {place} of {} ({})", place.ip(), facts.line())?;
    if place.ip().is_loopback() {
        writeln!(
            out,
            "note: only this machine can reach it; --bind another address to serve others"
        )?;
    }
    writeln!(out, "{}", endpoint.address())?;
    writeln!(
        out,
        "on the other machine: packhorse compare --quick --peer ADDRESS   (the line above)"
    )?;
    if let Some(number) = endpoint.number() {
        let port = Number::new(number).port();
        writeln!(out, "or --peer HOST:{number}: it is found by that number (UDP port {port})")?;
    }
    let who = match (endpoint.number(), std::env::var_os("PACKHORSE_SECRET_FILE")) {
        (None, _) => "whoever has the address may measure",
        (Some(_), None) => "whoever asks for the number may measure",
        (Some(_), Some(_)) => "whoever has the address or the secret may measure",
    };
    writeln!(out, "{who}; ctrl-C ends it")?;
    out.flush().map_err(Into::into)
}

/// A line for whoever looks at the terminal. Nobody has to.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).ok();
}

struct Server {
    endpoint: Endpoint,
    ip: IpAddr,
    facts: InterfaceFacts,
    ports: Option<RangeInclusive<u16>>,
    placement: Option<String>,
    session: Option<Session>,
}

/// One client, and the process that measures with it.
struct Session {
    client: Peer,
    from: IpAddr,
    process: Process,
    job_count: usize,
    asked_at: Instant,
    beat_at: Option<Instant>,
    /// The last beat, while it is not accepted.
    beat: Option<Sending<Vec<u8>>>,
}

impl Server {
    /// An order, or a second without one.
    fn turn(&mut self) -> Result<()> {
        let mut coming = self.endpoint.recv(Wanted::tag(ORDER), vec![0; WORD_LEN_MAX]);
        match coming.wait_timeout(BEAT_EVERY) {
            Some(Ok(message)) => {
                let client = message.envelope.source;
                match serde_json::from_slice::<Order>(&message.buffer) {
                    Ok(order) => self.take(client, order),
                    Err(_) => {
                        self.refuse(client, "no order; use the same packhorse on both".into())
                    }
                }
            }
            // What is longer than any order, or ends with its sender, is not for us.
            Some(Err(failed)) if matches!(failed.error, Error::Closed) => {
                return Err(failed.error.into());
            }
            Some(Err(_)) | None => {}
        }
        self.beat();
        Ok(())
    }

    fn take(&mut self, client: Peer, order: Order) {
        let is_current = self.session.as_ref().is_some_and(|session| session.client == client);
        match order {
            Order::Begin(hello) => {
                if let Err(error) = self.begin(client, &hello) {
                    self.refuse(client, format!("{error:#}"));
                }
            }
            _ if !is_current => {} // of a client that was given up
            Order::Poke => {}
            Order::End => self.end("done"),
            Order::Job(job) => self.job(client, *job),
            Order::Line(line) => {
                let done = check_line(&line).and_then(|()| self.pass_on(&Order::Line(line)));
                self.or_fail(client, done);
            }
            Order::Wire(_) | Order::Describe(_) => {
                answer(&self.endpoint, client, &Report::Failed("a server only measures".into()));
            }
        }
    }

    fn begin(&mut self, client: Peer, hello: &Hello) -> Result<()> {
        hello.check()?;
        if let Some(session) = &mut self.session {
            ensure!(
                session.client == client,
                "the server on {} is measuring with {} just now; try again when that is done",
                self.ip,
                session.from
            );
            session.process.dismiss(); // what it said until now is sent; what follows belongs to the new beginning
        }
        let again = self.session.take();
        let endpoint = self.endpoint.clone();
        let process = Process::start(Stand::Here, None, move |heard| match heard {
            Heard::Report(Report::Ready) => {}
            Heard::Report(said) => answer(&endpoint, client, &said),
            Heard::Ended(why) => {
                answer(&endpoint, client, &Report::Failed(format!("on the server: {why}")));
            }
        })?;
        if again.is_none() {
            say(&format!("{}: begins", hello.from));
        }
        let job_count = again.map_or(0, |session| session.job_count);
        let (from, asked_at) = (hello.from, Instant::now());
        self.session =
            Some(Session { client, from, process, job_count, asked_at, beat_at: None, beat: None });
        answer(&self.endpoint, client, &Report::Facts(self.facts.clone()));
        Ok(())
    }

    fn job(&mut self, client: Peer, mut job: Job) {
        job.role = Role::Passive;
        job.bind = self.ip;
        job.ports.clone_from(&self.ports);
        if let Some(placement) = &self.placement {
            job.placement.clone_from(placement);
        }
        let done = check_job(&job).and_then(|()| self.pass_on(&Order::Job(Box::new(job))));
        if let (Ok(()), Some(session)) = (&done, &mut self.session) {
            session.job_count += 1;
            session.asked_at = Instant::now();
            if session.job_count == 1 {
                say(&format!("{}: first measurement", session.from));
            }
        }
        self.or_fail(client, done);
    }

    fn pass_on(&mut self, order: &Order) -> Result<()> {
        self.session.as_mut().context("no client")?.process.order(order)
    }

    fn or_fail(&self, client: Peer, done: Result<()>) {
        if let Err(error) = done {
            answer(&self.endpoint, client, &Report::Failed(format!("{error:#}")));
        }
    }

    fn refuse(&self, client: Peer, reason: String) {
        answer(&self.endpoint, client, &Report::Refused(reason));
    }

    /// Lets the client know that the server is there, and finds out whether the client is.
    fn beat(&mut self) {
        let Some(session) = &mut self.session else { return };
        if session.asked_at.elapsed() > IDLE_MAX {
            return self.end("given up: it asks for nothing");
        }
        match session.beat.as_mut().map(Sending::test) {
            Some(Some(Err(failed))) => return self.end(&format!("given up: {failed}")),
            Some(Some(Ok(_))) => session.beat = None,
            Some(None) | None => {}
        }
        let elapsed = session.beat_at.map(|at| at.elapsed());
        if session.beat.is_some() {
            if elapsed > Some(SILENCE_MAX) {
                let silence = SILENCE_MAX.as_secs();
                self.end(&format!("given up: nothing heard from it for {silence} s"));
            }
        } else if elapsed.is_none_or(|elapsed| elapsed >= BEAT_EVERY) {
            let text = serde_json::to_vec(&Report::Beat).unwrap_or_default();
            session.beat = Some(self.endpoint.send(session.client, ANSWER, text));
            session.beat_at = Some(Instant::now());
        }
    }

    fn end(&mut self, how: &str) {
        let Some(session) = self.session.take() else { return };
        let ending = if session.job_count == 1 { "" } else { "s" };
        say(&format!("{}: {} measurement{ending}, {how}", session.from, session.job_count));
        self.endpoint.forget(session.client);
    }
}

/// Does not wait: a client that is gone shows in the beat.
fn answer(endpoint: &Endpoint, client: Peer, answer: &Report) {
    let Ok(text) = serde_json::to_vec(answer) else { return };
    drop(endpoint.send(client, ANSWER, text)); // a send that is dropped goes on
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_must_have_room() {
        assert_eq!(parse_ports("7000-7009"), Ok(7000..=7009));
        assert_eq!(parse_ports("65532-65535"), Ok(65532..=65535));
        for text in ["7000", "7000-7002", "9-1", "0-10", "a-b", "7000-70000", ""] {
            assert!(parse_ports(text).is_err(), "{text}");
        }
    }
}
