//! Findings as one self-contained HTML page.

use anyhow::Result;

use crate::bench::row::Findings;

/// The whole page.
pub fn page(_findings: &Findings) -> Result<String> {
    Ok(String::new())
}
