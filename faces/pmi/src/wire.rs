//! PMI-1 as it passes between a process and its launcher: lines of `key=value` words, one question and one answer at a time.
//!
//! The launcher gives the process a descriptor that is connected (`PMI_FD`), or says where it listens (`PMI_PORT`, with `PMI_ID`). Hydra, which came
//! with MPICH, speaks it, and so does `cargo xtask portals`.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use packhorse_common::settings::Variable;

use crate::inherited;

/// Longest line of an answer.
const LINE_LEN_MAX: u64 = 4096;

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A connection to the launcher.
pub(crate) struct Wire {
    stream: BufReader<Box<dyn Stream>>,
    place: Option<(u32, u32)>,
}

/// A line in its words.
struct Line(String);

impl Line {
    /// The value of a word. That of the last may have blanks in it.
    fn word(&self, name: &str) -> Option<&str> {
        let at = |(at, _): &(usize, &str)| *at == 0 || self.0.as_bytes()[at - 1] == b' ';
        let mut found = self.0.match_indices(name).filter(at);
        let (start, _) = found.find(|(at, _)| self.0[at + name.len()..].starts_with('='))?;
        let value = &self.0[start + name.len() + 1..];
        Some(if name == "value" { value } else { value.split(' ').next().unwrap_or(value) })
    }

    fn number(&self, name: &str) -> Result<u32, String> {
        let number = self.word(name).and_then(|word| word.parse().ok());
        number.ok_or_else(|| format!("the launcher's `{}` has no number for {name}", self.0))
    }
}

impl Wire {
    /// `None` if no launcher that speaks it started this process.
    pub(crate) fn open() -> Result<Option<Self>, String> {
        let (fd, port) = (Variable::of("PMI_FD"), Variable::of("PMI_PORT"));
        let mut wire = match (fd.number::<i32>()?, port.value()) {
            (Some(fd), _) => {
                let stream: UnixStream = inherited::stream(fd)?;
                let place = Self::place_in_environment()?;
                Self { stream: BufReader::new(Box::new(stream)), place: Some(place) }
            }
            (None, Some(at)) => {
                let at = at.to_string_lossy();
                let stream = TcpStream::connect(&*at).map_err(|error| {
                    format!("PMI_PORT={at}: the launcher is not there: {error}")
                })?;
                Self { stream: BufReader::new(Box::new(stream)), place: None }
            }
            (None, None) => return Ok(None),
        };
        if wire.place.is_none() {
            wire.introduce()?;
        }
        let answer = wire.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        match answer.number("rc")? {
            0 => Ok(Some(wire)),
            _ => Err(format!("the launcher speaks another PMI: `{}`", answer.0)),
        }
    }

    fn place_in_environment() -> Result<(u32, u32), String> {
        let number = |name| {
            let number = Variable::of(name).number::<u32>()?;
            number.ok_or_else(|| format!("PMI_FD is set, but {name} is not"))
        };
        Ok((number("PMI_RANK")?, number("PMI_SIZE")?))
    }

    /// Says which process this is; the launcher tells its place.
    fn introduce(&mut self) -> Result<(), String> {
        let id = Variable::of("PMI_ID").number::<u32>()?;
        let id = id.ok_or("PMI_PORT is set, but PMI_ID is not")?;
        let answer = self.ask(&format!("cmd=initack pmiid={id}"), "initack")?;
        if answer.number("rc")? != 0 {
            return Err(format!("the launcher does not know PMI_ID={id}"));
        }
        let (mut rank, mut count) = (None, None);
        while rank.is_none() || count.is_none() {
            let set = self.line("set")?;
            rank = rank.or_else(|| set.number("rank").ok());
            count = count.or_else(|| set.number("size").ok());
        }
        self.line("set")?; // whether to be talkative
        self.place = rank.zip(count);
        Ok(())
    }

    fn ask(&mut self, question: &str, answer: &str) -> Result<Line, String> {
        let stream = self.stream.get_mut();
        stream.write_all(format!("{question}\n").as_bytes()).map_err(gone)?;
        stream.flush().map_err(gone)?;
        self.line(answer)
    }

    fn line(&mut self, wanted: &str) -> Result<Line, String> {
        let mut line = String::new();
        self.stream.by_ref().take(LINE_LEN_MAX).read_line(&mut line).map_err(gone)?;
        let Some(line) = line.strip_suffix('\n') else {
            return Err("the launcher is gone, or talks nonsense".into());
        };
        let line = Line(line.to_owned());
        match line.word("cmd") {
            Some(cmd) if cmd == wanted => Ok(line),
            _ => Err(format!("the launcher said `{}` where `cmd={wanted}` is due", line.0)),
        }
    }

    /// Our rank, and how many there are.
    pub(crate) fn place(&mut self) -> Result<(u32, u32), String> {
        self.place.ok_or_else(|| "the launcher did not say who this is".into())
    }

    pub(crate) fn name(&mut self) -> Result<String, String> {
        let answer = self.ask("cmd=get_my_kvsname", "my_kvsname")?;
        answer.word("kvsname").map(str::to_owned).ok_or_else(|| "a job without a name".into())
    }

    pub(crate) fn put(&mut self, name: &str, key: &str, value: &str) -> Result<(), String> {
        if value.contains(' ') {
            // Hydra takes the first word for the value, and says that all is well.
            return Err(format!("a value with a blank in it would be cut: {key}={value}"));
        }
        let question = format!("cmd=put kvsname={name} key={key} value={value}");
        let answer = self.ask(&question, "put_result")?;
        match answer.word("rc") {
            Some("0") => Ok(()),
            _ => Err(format!("the launcher did not take {key}: `{}`", answer.0)),
        }
    }

    pub(crate) fn get(&mut self, name: &str, key: &str) -> Result<Option<String>, String> {
        let answer = self.ask(&format!("cmd=get kvsname={name} key={key}"), "get_result")?;
        let is_found = answer.word("rc") == Some("0");
        Ok(is_found.then(|| answer.word("value").unwrap_or_default().to_owned()))
    }

    pub(crate) fn barrier(&mut self) -> Result<(), String> {
        self.ask("cmd=barrier_in", "barrier_out").map(|_| ())
    }

    pub(crate) fn finalize(&mut self) -> Result<(), String> {
        self.ask("cmd=finalize", "finalize_ack").map(|_| ())
    }
}

fn gone(error: std::io::Error) -> String {
    format!("the launcher is gone: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_by_their_whole_name() {
        let line = Line("cmd=get_result rc=0 msg=success value=a b key=c".into());
        assert_eq!(line.word("cmd"), Some("get_result"));
        assert_eq!(line.word("value"), Some("a b key=c"));
        assert_eq!((line.word("c"), line.word("sg"), line.word("none")), (None, None, None));
        assert_eq!(line.number("rc"), Ok(0));
        assert!(line.number("msg").unwrap_err().contains("msg"));
    }

    #[test]
    fn a_launcher_that_talks_nonsense_is_an_error() {
        for (said, why) in [
            ("", "gone"),
            ("cmd=barrier_out", "gone"),
            ("cmd=put_result rc=0\n", "cmd=barrier_out` is due"),
            ("\n", "cmd=barrier_out` is due"),
        ] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(said.as_bytes()).unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let mut wire = Wire { stream: BufReader::new(Box::new(ours)), place: None };
            let error = wire.barrier().unwrap_err();
            assert!(error.contains(why), "{said}: {error}");
        }
    }

    /// As Hydra reads it: words end at a blank.
    #[test]
    fn a_value_that_a_launcher_would_cut_is_refused() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"cmd=put_result rc=0\n").unwrap();
        let mut wire = Wire { stream: BufReader::new(Box::new(ours)), place: None };
        let error = wire.put("job", "key", "two words").unwrap_err();
        assert!(error.contains("key") && error.contains("blank"), "{error}");
        assert_eq!(wire.put("job", "key", "word=1;2"), Ok(()), "the answer is still there");
    }
}
