-- Released: it never changes, new versions follow. The statements that lead to version 1.
-- payload_jsonb is of the type json, which keeps the text as it was: the document comes out byte for byte as from any
-- other store. `payload_jsonb::jsonb` gives the operators.
CREATE TABLE traces (
    trace_id uuid PRIMARY KEY,
    status text NOT NULL,
    created_at_ms bigint NOT NULL,
    finalized_at_ms bigint,
    metadata_json json NOT NULL,
    final_state_json json,
    seq_last bigint NOT NULL DEFAULT 0,
    event_count bigint NOT NULL DEFAULT 0,
    byte_count bigint NOT NULL DEFAULT 0,
    clock_skew_ms bigint,
    final_blob_id text,
    deleted_at_ms bigint,
    identity bytea NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE INDEX traces_newest ON traces (created_at_ms, trace_id);
CREATE INDEX traces_pending ON traces (finalized_at_ms, trace_id) WHERE status IN ('finalized', 'qa_running');
CREATE TABLE events (
    trace_id uuid NOT NULL,
    seq bigint NOT NULL,
    ts_ms bigint NOT NULL,
    type text NOT NULL,
    payload_jsonb json NOT NULL,
    event_id uuid NOT NULL,
    envelope_json json NOT NULL,
    identity bytea NOT NULL,
    PRIMARY KEY (trace_id, seq),
    UNIQUE (trace_id, event_id)
);
CREATE TABLE blobs (
    blob_id text COLLATE "C" PRIMARY KEY,
    storage_uri text NOT NULL,
    content_type text NOT NULL,
    byte_len bigint NOT NULL,
    redaction_json json NOT NULL,
    held_by bigint NOT NULL DEFAULT 0,
    shared boolean NOT NULL DEFAULT false,
    touched_ms bigint NOT NULL,
    data bytea
);
CREATE INDEX blobs_garbage ON blobs (touched_ms) WHERE held_by = 0;
CREATE TABLE trace_blobs (
    trace_id uuid NOT NULL,
    blob_id text COLLATE "C" NOT NULL,
    content_type text NOT NULL,
    redaction_json json NOT NULL,
    used boolean NOT NULL,
    PRIMARY KEY (trace_id, blob_id)
);
CREATE TABLE blob_aliases (
    trace_id uuid NOT NULL,
    submitted_id text NOT NULL,
    blob_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (trace_id, submitted_id)
);
CREATE TABLE trace_gaps (
    trace_id uuid NOT NULL,
    from_seq bigint NOT NULL,
    to_seq bigint NOT NULL,
    PRIMARY KEY (trace_id, from_seq)
);
CREATE TABLE qa_facts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    trace_id uuid NOT NULL,
    step text NOT NULL,
    input_hash text NOT NULL,
    ts_ms bigint NOT NULL,
    result_json json NOT NULL,
    UNIQUE (trace_id, step, input_hash)
);
CREATE TABLE tokens (
    token_id text PRIMARY KEY,
    kind text NOT NULL,
    token_hash text NOT NULL UNIQUE,
    trace_id uuid,
    label text NOT NULL,
    created_at_ms bigint NOT NULL,
    revoked_at_ms bigint
);
CREATE INDEX tokens_of_trace ON tokens (trace_id) WHERE trace_id IS NOT NULL;
CREATE TABLE purges (trace_id uuid PRIMARY KEY);
CREATE TABLE secrets (name text PRIMARY KEY, value bytea NOT NULL);
