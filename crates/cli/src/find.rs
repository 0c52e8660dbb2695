//! `packhorse find`: what answers at a number of a host.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use packhorse::quantity::{self, Unit};
use packhorse::{Answer, Greeting, LookUp, Number, SharedSecret};

const EXAMPLES: &str = "\
Examples:
  packhorse find node7 42                  what has number 42 there?
  packhorse find 10.0.0.7 42 --address     its address alone, for a script
  PACKHORSE_SECRET_FILE=~/.secret packhorse find node7 42
                                           where only holders of the secret are told";

/// Ask a host what has a number there.
///
/// A program that opened an endpoint with a number (`packhorse serve --name`, `Builder::named`) answers; this shows how soon and what it
/// says. If nothing answers it tells whether the host, the number or the secret is wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct FindArgs {
    /// The host: a name, or an IPv4 or IPv6 address.
    host: String,
    /// The number, 0 to 65535.
    number: u16,
    /// File with the secret that is asked for there; as PACKHORSE_SECRET_FILE says without it.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// What to say to the application there: up to 32 bytes.
    #[arg(long, value_name = "TEXT", value_parser = parse_greeting)]
    greeting: Option<Greeting>,
    /// How long to ask: in seconds, or with the unit (500ms).
    #[arg(long, value_name = "S", default_value = "5", value_parser = |text: &str| quantity::time(text, Unit::Seconds))]
    seconds: Duration,
    /// Write the address, and nothing else, to standard output. Its holder may send.
    #[arg(long)]
    address: bool,
}

fn parse_greeting(text: &str) -> Result<Greeting, String> {
    let mut greeting = Greeting::default();
    let room = greeting.get_mut(..text.len());
    room.ok_or("a greeting has 32 bytes at most")?.copy_from_slice(text.as_bytes());
    Ok(greeting)
}

/// Asks and shows.
pub(crate) fn run(args: &FindArgs, out: &mut impl Write) -> Result<()> {
    let mut look_up = LookUp::from_environment(&args.host, args.number)?
        .greeting(args.greeting.unwrap_or_default())
        .timeout(args.seconds);
    if let Some(file) = &args.secret_file {
        look_up = look_up.secret(Some(SharedSecret::from_file(file)?));
    }
    let answer = look_up.wait()?;
    match args.address {
        true => writeln!(out, "{}", answer.address)?,
        false => writeln!(out, "{}", line(args, &answer))?,
    }
    Ok(())
}

fn line(args: &FindArgs, answer: &Answer) -> String {
    let place = packhorse::show_locator(&answer.address.locator.0);
    let port = Number::new(args.number).port();
    let after = answer.after.as_secs_f64() * 1e3;
    let said = match text_of(&answer.greeting) {
        Some(text) => format!("; it says {text:?}"),
        None => String::new(),
    };
    format!(
        "number {} at {} (UDP port {port}) answered from {} after {after:.1} ms: an endpoint at {place}{said}",
        args.number,
        args.host,
        answer.from.ip()
    )
}

/// What an application says, if it is text that can be shown.
fn text_of(greeting: &Greeting) -> Option<&str> {
    let text = std::str::from_utf8(greeting).ok()?.trim_end_matches('\0');
    (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_shown_if_they_are_text() {
        let shown = |text: &str| text_of(&parse_greeting(text).unwrap()).map(str::to_owned);
        assert_eq!(shown("kv 1").as_deref(), Some("kv 1"));
        assert_eq!(shown(&"x".repeat(32)).map(|text| text.len()), Some(32));
        assert!(parse_greeting(&"x".repeat(33)).is_err());
        assert_eq!((shown(""), shown("\u{1b}[2J")), (None, None));
        assert_eq!(text_of(&[0xFF; 32]), None);
    }
}
