//! The manual page, from the same definition as the command line: the program, then each of its commands.

use std::io::Write;

use anyhow::Result;
use clap::Command;

/// One page for the program and all commands that are meant for people.
pub(crate) fn write(program: Command, out: &mut impl Write) -> Result<()> {
    let mut program = program.disable_help_subcommand(true);
    program.build(); // gives commands their full names
    clap_mangen::Man::new(program.clone()).render(out)?;
    for command in program.get_subcommands() {
        write_command(command, out)?;
    }
    Ok(())
}

/// As sections of the one page: heads of pages within it would begin it again.
fn write_command(command: &Command, out: &mut impl Write) -> Result<()> {
    if command.is_hide_set() {
        return Ok(());
    }
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_uppercase();
    writeln!(out, ".SH \"{name}\"")?;
    let man = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    man.render_description_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_options_section(&mut text)?;
    man.render_extra_section(&mut text)?;
    out.write_all(String::from_utf8_lossy(&text).replace(".SH ", ".SS ").as_bytes())?;
    for inner in command.get_subcommands() {
        write_command(inner, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn page_has_commands_but_not_hidden_ones() {
        let program = Command::new("tool")
            .subcommand(Command::new("seen").about("Does things").arg(Arg::new("x").long("wide")))
            .subcommand(Command::new("unseen").hide(true).arg(Arg::new("y").long("narrow")));
        let mut text = Vec::new();
        write(program, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(".TH tool") && text.contains(".SH \"TOOL SEEN\""), "{text}");
        assert!(text.contains("wide") && !text.contains("narrow"), "{text}");
        assert_eq!(text.matches(".TH").count(), 1);
    }
}
