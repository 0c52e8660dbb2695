//! `packhorse mx`: what there is of MX on this host and around it.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use clap::{Args, Subcommand};
use packhorse::quantity::{self, Unit};
use packhorse_mx::survey::{self, Ask, Board, Known, Open, State};

const HOW_TO_RUN: &str = "\
A program that was built against our headers finds our library so, on each of its hosts: LD_LIBRARY_PATH=PREFIX/lib ./program,
where PREFIX is that of `cargo xtask install`.";

/// Boards, endpoints, peers and counters of programs of MX.
#[derive(Debug, Args)]
#[command(after_help = HOW_TO_RUN)]
pub(crate) struct MxArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List boards, open endpoints and peers.
    ///
    /// The boards of this host as a program of MX gets them (PACKHORSE_MX_BOARDS), the endpoints that are open there and who has them, the
    /// table of hosts (PACKHORSE_MX_HOSTS), and the boards of other hosts whose programs answer on the segment.
    #[command(
        after_help = "Examples:\n  packhorse mx info\n  packhorse mx info --seconds 0              without asking the segment\n  PACKHORSE_MX_BOARDS=lo packhorse mx info   with a setting"
    )]
    Info {
        /// How long to wait for answers of the segment: in seconds, or with the unit (500ms).
        #[arg(long, value_name = "S", default_value = "1", value_parser = |text: &str| quantity::time(text, Unit::Seconds))]
        seconds: Duration,
    },
    /// Show the counters of open endpoints.
    ///
    /// Each endpoint that is open on this host tells its own, whoever runs its program: the same that `mx_get_info` gives a program, since the
    /// endpoint was opened. With a shared secret (PACKHORSE_SECRET_FILE) only holders of it are told.
    #[command(
        after_help = "Examples:\n  packhorse mx counters\n  packhorse mx counters --board 1 --all      one board, also what is zero"
    )]
    Counters {
        /// Of this board alone, by its number.
        #[arg(long, value_name = "N")]
        board: Option<usize>,
        /// Also those that are zero.
        #[arg(long)]
        all: bool,
    },
}

/// Looks and shows.
pub(crate) fn run(args: &MxArgs, out: &mut impl Write) -> Result<()> {
    let boards = survey::boards().map_err(|why| anyhow!(why))?;
    match args.what {
        What::Info { seconds } => info(&boards, seconds, out),
        What::Counters { board, all } => counters(&boards, board, all, out),
    }
}

fn info(boards: &[Board], longest: Duration, out: &mut impl Write) -> Result<()> {
    writeln!(out, "boards")?;
    if boards.is_empty() {
        writeln!(out, "  none: no interface is up and has an IP address")?;
    }
    for (board, number) in boards.iter().zip(0..) {
        writeln!(out, "{}", board_line(number, board))?;
        for open in open_on(board, Ask::Process)? {
            writeln!(out, "    endpoint {}: {}", open.index, owner(&open))?;
        }
    }
    if let Some((path, table)) = survey::table().map_err(|why| anyhow!(why))? {
        writeln!(out, "table {}", path.display())?;
        table.iter().try_for_each(|known| writeln!(out, "{}", known_line(known)))?;
    }
    writeln!(out, "peers on the segment")?;
    if !survey::has_segment(boards) {
        writeln!(
            out,
            "  none: no board has a network with broadcast; PACKHORSE_MX_HOSTS names peers"
        )?;
    } else if longest.is_zero() {
        writeln!(out, "  not asked")?;
    } else {
        let found = survey::neighbours(boards, longest).map_err(|why| anyhow!(why))?;
        if found.is_empty() {
            let hint = "do programs with open endpoints run there, and is UDP port 62207 let in?";
            writeln!(out, "  nobody answered within {longest:?}; {hint}")?;
        }
        found.iter().try_for_each(|known| writeln!(out, "{}", known_line(known)))?;
    }
    writeln!(out, "\n{HOW_TO_RUN}")?;
    Ok(())
}

fn counters(boards: &[Board], only: Option<usize>, all: bool, out: &mut impl Write) -> Result<()> {
    if let Some(number) = only {
        let count = boards.len();
        ensure!(
            number < count,
            "board {number}: there are {count}, from 0; see `packhorse mx info`"
        );
    }
    let mut is_any = false;
    let chosen =
        boards.iter().enumerate().filter(|(number, _)| only.is_none_or(|it| it == *number));
    for (number, board) in chosen {
        for open in open_on(board, Ask::Counters)? {
            is_any = true;
            let name = &board.name;
            writeln!(out, "board {number} ({name}), endpoint {}: {}", open.index, owner(&open))?;
            let State::Told { counters, .. } = &open.state else { continue };
            for (name, value) in counters.iter().filter(|(_, value)| all || *value > 0) {
                writeln!(out, "  {name:<20} {value:>16}")?;
            }
        }
    }
    if !is_any {
        writeln!(out, "no endpoint is open; counters are those of endpoints, and end with them")?;
    }
    Ok(())
}

fn open_on(board: &Board, ask: Ask) -> Result<Vec<Open>> {
    survey::endpoints(board, ask).map_err(|why| anyhow!(why))
}

fn board_line(number: usize, board: &Board) -> String {
    let Board { name, interface, nic_id, ip, prefix, .. } = board;
    format!("  {number}  {name}  {}  {ip}/{prefix}  {interface}", mac_text(*nic_id))
}

fn known_line(known: &Known) -> String {
    format!("  {}  {}  {}", known.name, mac_text(known.nic_id), known.ip)
}

/// A NIC id as people write a MAC.
fn mac_text(nic_id: u64) -> String {
    let [_, _, mac @ ..] = nic_id.to_be_bytes();
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Who has an endpoint. The name is the one that this host's list of processes has.
fn owner(open: &Open) -> String {
    match &open.state {
        State::Told { process, .. } => {
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            match name.trim() {
                "" => format!("process {process}"),
                name => format!("process {process} ({name})"),
            }
        }
        State::Locked => "open, with another shared secret (PACKHORSE_SECRET_FILE) or none".into(),
        State::Silent => "open, but does not answer: is its process stopped?".into(),
        State::Strange => "the number is taken by something that is no endpoint of MX".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nic_ids_are_shown_as_macs() {
        assert_eq!(mac_text(0x0200_0000_ab01), "02:00:00:00:ab:01");
        assert_eq!(mac_text(0), "00:00:00:00:00:00");
    }

    #[test]
    fn a_board_that_is_not_there_is_refused() {
        let why = counters(&[], Some(3), false, &mut Vec::new()).unwrap_err().to_string();
        assert!(why.contains("there are 0") && why.contains("packhorse mx info"), "{why}");
    }
}
