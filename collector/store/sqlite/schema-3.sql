-- Released: it never changes, new versions follow. The statements that lead to version 3: rights of tokens, audit, leases.
ALTER TABLE tokens ADD COLUMN role TEXT NOT NULL DEFAULT 'operator';
ALTER TABLE tokens ADD COLUMN developer TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN expires_at_ms INTEGER;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    token_id TEXT NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL
);
CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_keeps BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- Who makes the checks of a trace now.
CREATE TABLE leases (trace_id TEXT PRIMARY KEY, holder TEXT NOT NULL, until_ms INTEGER NOT NULL);
