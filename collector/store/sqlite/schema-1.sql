-- Released: it never changes, new versions follow. The statements that lead to version 1.
CREATE TABLE traces (
    trace_id TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    finalized_at_ms INTEGER,
    metadata_json TEXT NOT NULL,
    final_state_json TEXT,
    seq_last INTEGER NOT NULL DEFAULT 0,
    event_count INTEGER NOT NULL DEFAULT 0,
    byte_count INTEGER NOT NULL DEFAULT 0,
    clock_skew_ms INTEGER,
    final_blob_id TEXT,
    deleted_at_ms INTEGER,
    identity BLOB NOT NULL DEFAULT x''
);
CREATE INDEX traces_newest ON traces (created_at_ms, trace_id);
CREATE INDEX traces_pending ON traces (status, finalized_at_ms) WHERE status IN ('finalized', 'qa_running');
-- payload_jsonb and envelope_json are canonical JSON text: what comes out is byte for byte what went in.
CREATE TABLE events (
    trace_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    ts_ms INTEGER NOT NULL,
    type TEXT NOT NULL,
    payload_jsonb TEXT NOT NULL,
    event_id TEXT NOT NULL,
    envelope_json TEXT NOT NULL,
    identity BLOB NOT NULL
);
CREATE UNIQUE INDEX events_in_order ON events (trace_id, seq);
CREATE UNIQUE INDEX events_by_id ON events (trace_id, event_id);
CREATE TABLE blobs (
    number INTEGER PRIMARY KEY,
    blob_id TEXT NOT NULL,
    storage_uri TEXT NOT NULL,
    content_type TEXT NOT NULL,
    byte_len INTEGER NOT NULL,
    redaction_json TEXT NOT NULL,
    held_by INTEGER NOT NULL DEFAULT 0,
    shared INTEGER NOT NULL DEFAULT 0,
    touched_ms INTEGER NOT NULL,
    data BLOB
);
CREATE UNIQUE INDEX blobs_by_id ON blobs (blob_id);
CREATE INDEX blobs_garbage ON blobs (touched_ms) WHERE held_by = 0;
-- Blobs by number: new ones stand side by side, where ids would scatter over the whole index. content_type and
-- redaction_json are null where they are as in blobs.
CREATE TABLE trace_blobs (
    trace_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    content_type TEXT,
    redaction_json TEXT,
    used INTEGER NOT NULL,
    PRIMARY KEY (trace_id, number)
) WITHOUT ROWID;
CREATE TABLE blob_aliases (
    trace_id TEXT NOT NULL,
    submitted_id TEXT NOT NULL,
    blob_id TEXT NOT NULL,
    PRIMARY KEY (trace_id, submitted_id)
) WITHOUT ROWID;
CREATE TABLE trace_gaps (
    trace_id TEXT NOT NULL,
    from_seq INTEGER NOT NULL,
    to_seq INTEGER NOT NULL,
    PRIMARY KEY (trace_id, from_seq)
) WITHOUT ROWID;
CREATE TABLE qa_facts (
    number INTEGER PRIMARY KEY,
    trace_id TEXT NOT NULL,
    step TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    ts_ms INTEGER NOT NULL,
    result_json TEXT NOT NULL,
    UNIQUE (trace_id, step, input_hash)
);
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    trace_id TEXT,
    label TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
);
-- deleted traces whose events are not all removed yet
CREATE TABLE purges (trace_id TEXT PRIMARY KEY);
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
