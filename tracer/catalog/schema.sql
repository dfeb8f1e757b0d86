create table traces (
  number integer not null, task_id text not null, ordinal text not null, name text not null,
  title text not null, executor text not null, model text not null,
  created_at text not null, updated_at text not null, iterations integer not null, judgments text not null,
  cost_usd real, final_status text, reason text not null, awaiting integer not null, last_event text not null,
  damaged integer not null,
  tokens text not null, worked_ms integer not null, verification text not null, sessions text not null,
  used integer not null, judged integer not null, rejected integer not null,
  seq integer not null, offset integer not null, size integer not null, mtime_ns integer not null, fold text not null,
  primary key (number, task_id, ordinal)
) without rowid;
create index traces_by_name on traces (name, size, mtime_ns);
create index traces_unfinished on traces (name, size, mtime_ns) where final_status is null;
-- What lists are filtered, sorted and summed by: to scan the rows themselves takes three times as long.
create index traces_listed on traces (number, task_id, ordinal, final_status, updated_at, executor, model, iterations,
  cost_usd, used, worked_ms, judged, rejected, verification, reason);
create table folders (name text primary key, mtime_ns integer not null) without rowid;
create table agentic (
  name text primary key, ts text not null, label text not null, operation text not null, module text not null,
  provider text not null, model text not null, success integer, cost_usd real, duration_s real,
  session_id text not null, tools integer, errors integer, thoughts integer, native_bytes integer, used integer,
  agents integer, prompt text not null, project text not null,
  size integer not null, mtime_ns integer not null
) without rowid;
create index agentic_by_time on agentic (ts desc, name desc);
