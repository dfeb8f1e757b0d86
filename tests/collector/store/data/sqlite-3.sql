BEGIN TRANSACTION;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    token_id TEXT NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL
);
CREATE TABLE blob_aliases (
        trace_id TEXT NOT NULL,
        submitted_id TEXT NOT NULL,
        blob_id TEXT NOT NULL,
        PRIMARY KEY (trace_id, submitted_id)
    ) WITHOUT ROWID
    ;
CREATE TABLE blob_holds (number INTEGER PRIMARY KEY, more INTEGER NOT NULL);
CREATE TABLE blob_ids (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE TABLE blob_ids_new (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
INSERT INTO "blob_ids_new" VALUES(-80443251053432,1);
CREATE TABLE blob_ids_recent (key INTEGER, number INTEGER, PRIMARY KEY (key, number)) WITHOUT ROWID;
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
INSERT INTO "blobs" VALUES(1,'sha256:36d65898ac88d593753dd8daccb2b42e725970f3f2e2259b9e69fdc2898a54b8','db:sha256:36d65898ac88d593753dd8daccb2b42e725970f3f2e2259b9e69fdc2898a54b8','text/plain',7,'{"applied":true,"rules":["secret_scan"]}',1,0,1795347892376,X'61207061746368');
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
INSERT INTO "events" VALUES('00000000-0000-0000-0000-000000000001',1,1700000000001,'navigation','{"file_path":"src/shop.py","kind":"open"}','00000000-0000-0000-0000-000000002711','{"actor":{"id":"dev-1","kind":"human"},"context":{"branch":"main","workspace_root":"/home/alice/shop"}}',X'30303030303030303030303030303031');
INSERT INTO "events" VALUES('00000000-0000-0000-0000-000000000001',2,1700000000002,'navigation','{"file_path":"src/shop.py","kind":"open"}','00000000-0000-0000-0000-000000002712','{"actor":{"id":"dev-1","kind":"human"},"context":{"branch":"main","workspace_root":"/home/alice/shop"}}',X'30303030303030303030303030303032');
CREATE TABLE leases (trace_id TEXT PRIMARY KEY, holder TEXT NOT NULL, until_ms INTEGER NOT NULL);
CREATE TABLE purges (trace_id TEXT PRIMARY KEY);
CREATE TABLE qa_facts (
        number INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL,
        step TEXT NOT NULL,
        input_hash TEXT NOT NULL,
        ts_ms INTEGER NOT NULL,
        result_json TEXT NOT NULL,
        UNIQUE (trace_id, step, input_hash)
    );
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE tokens (
        token_id TEXT PRIMARY KEY,
        kind TEXT NOT NULL,
        token_hash TEXT NOT NULL UNIQUE,
        trace_id TEXT,
        label TEXT NOT NULL,
        created_at_ms INTEGER NOT NULL,
        revoked_at_ms INTEGER
    , role TEXT NOT NULL DEFAULT 'operator', developer TEXT NOT NULL DEFAULT '', project TEXT NOT NULL DEFAULT '', expires_at_ms INTEGER);
INSERT INTO "tokens" VALUES('eff147a8-1424-422e-8fbe-3cbf9d208d9a','ingest','hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh','00000000-0000-0000-0000-000000000001','',1795347892371,NULL,'operator','','',NULL);
CREATE TABLE trace_blobs (
        trace_id TEXT NOT NULL,
        number INTEGER NOT NULL,
        content_type TEXT,
        redaction_json TEXT,
        named INTEGER NOT NULL,
        PRIMARY KEY (trace_id, number)
    ) WITHOUT ROWID
    ;
INSERT INTO "trace_blobs" VALUES('00000000-0000-0000-0000-000000000001',1,NULL,NULL,1);
CREATE TABLE trace_gaps (
        trace_id TEXT NOT NULL,
        from_seq INTEGER NOT NULL,
        to_seq INTEGER NOT NULL,
        PRIMARY KEY (trace_id, from_seq)
    ) WITHOUT ROWID
    ;
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
INSERT INTO "traces" VALUES('00000000-0000-0000-0000-000000000001','open',1000,NULL,'{"developer":{"consent_flags":{"allow_llm_judge":true,"store_raw_code":true,"store_terminal_output":true},"developer_id":"dev-1"},"environment":{"os":"linux"},"ingestion":{"client_session_id":"s-1","mode":"incremental"},"repo":{"commit_base":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","repo_id":"shop"},"store":"redacted","task":{"bug_report":{"description":"the tax is added twice","title":"totals are wrong"}}}',NULL,2,2,295,NULL,NULL,NULL,X'');
CREATE INDEX traces_newest ON traces (created_at_ms, trace_id);
CREATE INDEX traces_pending ON traces (status, finalized_at_ms) WHERE status IN ('finalized', 'qa_running');
CREATE UNIQUE INDEX events_in_order ON events (trace_id, seq);
CREATE UNIQUE INDEX events_by_id ON events (trace_id, event_id);
CREATE INDEX blobs_garbage ON blobs (touched_ms) WHERE held_by = 0;
CREATE VIEW blob_numbers AS
        SELECT key, number FROM blob_ids_new
        UNION ALL SELECT key, number FROM blob_ids_recent
        UNION ALL SELECT key, number FROM blob_ids;
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_keeps BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
COMMIT;
PRAGMA user_version = 3;
