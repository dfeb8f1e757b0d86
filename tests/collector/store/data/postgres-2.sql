CREATE SCHEMA pm_collector;
SET search_path = pm_collector, public;
CREATE TABLE schema_version (version integer NOT NULL);
INSERT INTO schema_version VALUES (1);
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
INSERT INTO traces (trace_id, status, created_at_ms, metadata_json, seq_last, event_count, byte_count) VALUES ('00000000-0000-0000-0000-000000000001', 'open', 1000, '{"repo":{"repo_id":"shop","commit_base":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"task":{"bug_report":{"title":"totals are wrong","description":"the tax is added twice"}},"developer":{"developer_id":"dev-1","consent_flags":{"store_raw_code":true,"store_terminal_output":true,"allow_llm_judge":true}},"environment":{"os":"linux"},"ingestion":{"mode":"incremental","client_session_id":"s-1"},"store":"redacted"}', 2, 2, 500);
INSERT INTO events VALUES ('00000000-0000-0000-0000-000000000001', 1, 1700000000001, 'navigation', '{"file_path":"src/shop.py","kind":"open"}', '00000000-0000-0000-0000-000000002711', '{"actor":{"id":"dev-1","kind":"human"},"context":{"branch":"main","workspace_root":"/home/alice/shop"}}', '\x30303030303030303030303030303031');
INSERT INTO events VALUES ('00000000-0000-0000-0000-000000000001', 2, 1700000000002, 'navigation', '{"file_path":"src/shop.py","kind":"open"}', '00000000-0000-0000-0000-000000002712', '{"actor":{"id":"dev-1","kind":"human"},"context":{"branch":"main","workspace_root":"/home/alice/shop"}}', '\x30303030303030303030303030303032');
INSERT INTO blobs (blob_id, storage_uri, content_type, byte_len, redaction_json, held_by, touched_ms, data) VALUES ('sha256:36d65898ac88d593753dd8daccb2b42e725970f3f2e2259b9e69fdc2898a54b8', 'db:sha256:36d65898ac88d593753dd8daccb2b42e725970f3f2e2259b9e69fdc2898a54b8', 'text/plain', 7, '{"applied":true,"rules":["secret_scan"]}', 1, 1, '\x61207061746368');
INSERT INTO trace_blobs VALUES ('00000000-0000-0000-0000-000000000001', 'sha256:36d65898ac88d593753dd8daccb2b42e725970f3f2e2259b9e69fdc2898a54b8', 'text/plain', '{"applied":true,"rules":["secret_scan"]}', true);
ALTER TABLE tokens ADD COLUMN role text NOT NULL DEFAULT 'operator';
ALTER TABLE tokens ADD COLUMN developer text NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN project text NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN expires_at_ms bigint;
CREATE TABLE audit (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms bigint NOT NULL,
    token_id text NOT NULL,
    role text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL
);
CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses();
-- Who makes the checks of a trace now.
CREATE TABLE leases (trace_id uuid PRIMARY KEY, holder text NOT NULL, until_ms bigint NOT NULL);
INSERT INTO schema_version VALUES (2);
