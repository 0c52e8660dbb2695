//! `packhorse compare`.
