//! The section on MPI: the same program over Packhorse and over the MPI's own transports.

use std::fmt::Write as _;

use anyhow::Result;

use super::escape;
use crate::mpi::row::{MpiRow, cases_of, lines_of, links_of};
use crate::sizes::show_bytes;
use crate::table::show_ratio;

/// Nothing, where nothing was measured under MPI.
pub(super) fn section(rows: &[MpiRow]) -> Result<String> {
    if rows.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from(
        "<section>\n<h2>Under MPI</h2>\n<p>One MPI program over Packhorse and over what the same MPI has otherwise. Ping-pong is half \
         of a round trip; collective operations are timed by their slowest rank; overlap is the share of a transfer's time that can be \
         spent computing. Ratios are to the same MPI's own transport, within each repetition.</p>\n<div class=\"scroll\"><table>\n\
         <thead><tr><th>pattern</th><th>bytes</th><th>ranks</th><th>system</th><th>median</th><th>÷ own (min..max)</th></tr></thead>\n\
         <tbody>\n",
    );
    for case in cases_of(rows) {
        for (index, line) in lines_of(rows, &case).iter().enumerate() {
            let class = if index == 0 { " class=\"first\"" } else { "" };
            let [bench, bytes, ranks] = match index {
                0 => [case.bench.clone(), show_bytes(case.bytes), case.ranks.to_string()],
                _ => Default::default(),
            };
            let ratio = line.ratio.map_or(String::new(), show_ratio);
            let system = escape(&line.system);
            writeln!(
                text,
                "<tr{class}><td>{bench}</td><td>{bytes}</td><td>{ranks}</td><td>{system}</td><td>{}</td><td>{ratio}</td></tr>",
                line.value
            )?;
        }
    }
    text += "</tbody>\n</table></div>\n";
    for link in links_of(rows) {
        writeln!(text, "<p>{}</p>", escape(&link))?;
    }
    Ok(text + "</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::row::tests::example;

    #[test]
    fn each_system_has_its_line() {
        let rows = [
            example("allreduce", "mpich-packhorse", 0, 2000.0),
            example("allreduce", "mpich-usual", 0, 4000.0),
        ];
        let text = section(&rows).unwrap();
        assert!(
            text.contains("<td>allreduce</td>") && text.contains("0.50 (0.50..0.50)"),
            "{text}"
        );
        assert!(text.contains("went over udp"), "{text}");
        assert_eq!(section(&[]).unwrap(), "");
    }
}
