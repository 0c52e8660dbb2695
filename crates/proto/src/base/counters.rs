//! What an endpoint counts.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts since the endpoint opened.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }
        impl Counters {
            /// Names and values, in the order of declaration.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Frames made.
    frames_out,
    /// Frames that passed the check.
    frames_in,
    /// Frames that did not.
    frames_unkeyed,
    /// Keyed frames that made no sense.
    frames_malformed,
    /// Frames with data that was not granted, or no longer.
    data_unasked,
    /// Large messages whose first bytes came without a grant and were taken.
    granted_ahead,
    /// Frames whose payload check failed.
    frames_damaged,
    /// Packets received twice.
    packets_duplicate,
    /// Packets taken for lost.
    packets_lost,
    /// Contents sent again.
    contents_resent,
    /// Probes after silence.
    probes,
    /// Hellos sent.
    hellos,
    /// Challenges sent.
    challenges,
    /// Echoes with a stale or forged cookie.
    cookies_refused,
    /// Hellos in our own name, or with the secret that everybody knows.
    identities_refused,
    /// Associations begun.
    joined,
    /// Associations ended.
    left,
    /// Peers that introduced themselves, were idle for long and were forgotten.
    strangers_forgotten,
    /// Associations renewed by another incarnation or id.
    renewed,
    /// Resets sent.
    resets_out,
    /// Resets believed.
    resets_in,
    /// Messages posted.
    messages_out,
    /// Messages whose envelope was taken in turn.
    messages_in,
    /// Message records received twice.
    messages_duplicate,
    /// Messages held before their turn.
    messages_early,
    /// Messages held unexpected.
    messages_unexpected,
    /// Refusals sent.
    refusals,
    /// Recalls sent.
    recalls,
    /// Queries sent.
    queries,
    /// Messages found by a query and taken out of turn.
    queries_found,
    /// Large messages announced to us.
    rendezvous_in,
    /// Grants sent.
    grants,
    /// Grants repeated.
    grants_repeated,
    /// Acknowledgements sent.
    acks_out,
    /// Acknowledgements received.
    acks_in,
    /// Windows shrunk gently.
    windows_shrunk,
    /// Windows halved.
    windows_halved,
    /// Paths left.
    paths_lost,
    /// Paths taken back.
    paths_regained,
    /// Locators replaced after an echo.
    locators_changed,
    /// Paths that fell back to 1200 bytes.
    frame_len_drops,
    /// Bytes of payload placed.
    bytes_placed,
    /// Of these, bytes that had landed in place before their frame was looked at.
    bytes_landed,
    /// Of these, bytes that were read from where their sender told that they are.
    bytes_fetched,
    /// Messages that could not be read so, and were granted.
    fetches_failed,
    /// Copied messages that were given to a link, and are not acknowledged.
    messages_given,
    /// Announcements and ends of large messages that were given to a link.
    notes_given,
    /// Such messages of peers whose payload went from the link to its place, by their driver.
    messages_begun,
    /// Frames that were taken together with the one before: fragments of one message.
    frames_together,
    /// One-sided operations posted.
    operations_out,
    /// Requests of peers' one-sided operations whose turn came.
    requests_in,
    /// Of these, requests that were not permitted.
    requests_denied,
    /// Bytes of streams lent to their reader straight from a frame.
    stream_bytes_lent,
    /// Bytes of streams that came before they were wanted, and were held.
    stream_bytes_held,
    /// Bytes of streams read from where their sender told that they are.
    stream_bytes_read,
    /// Chunks of streams of which a sender told.
    stream_chunks_told,
    /// Of these, chunks whose rest their sender was asked to send.
    stream_chunks_declined,
    /// Chunks of streams posted.
    stream_chunks_out,
    /// Most payload held at once.
    held_len_peak,
    /// Most envelopes held at once.
    envelope_count_peak,
}
