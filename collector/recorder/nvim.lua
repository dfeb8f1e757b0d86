-- What you do in Neovim, for a running `pm record`: files opened and closed, searches, breakpoints, test runs,
-- thoughts, consent taken back. Put it into ~/.config/nvim/plugin/. Outside a recorded shell it does nothing.
local path = vim.env.PM_RECORD_SOCKET
if not path or path == "" or vim.g.loaded_pm_record then
  return
end
vim.g.loaded_pm_record = 1

local channel = 0
local partial = ""
local waiting = {} -- what is shown when the answer comes, in the order of the lines that were sent

local function show(text, level)
  vim.schedule(function()
    vim.notify("pm record: " .. text, level or vim.log.levels.INFO)
  end)
end

local function on_data(_, data)
  if #data == 1 and data[1] == "" then -- the recording has ended
    channel, partial, waiting = 0, "", {}
    return
  end
  data[1] = partial .. data[1]
  partial = table.remove(data)
  for _, line in ipairs(data) do
    local ok, answer = pcall(vim.json.decode, line)
    local shown = table.remove(waiting, 1)
    if ok and not answer.ok then
      show(answer.error .. (answer.why ~= "" and " (" .. answer.why .. ")" or ""), vim.log.levels.WARN)
    elseif ok and shown then
      show(shown)
    end
  end
end

-- One event; `shown` is told once it is recorded. Other plug-ins call it as `PmRecord.send(kind, payload)`.
local function send(kind, payload, shown)
  local actor = kind ~= "thought" and { kind = "ide", id = "neovim" } or nil
  local line = vim.json.encode({ type = kind, payload = payload, actor = actor }) .. "\n"
  for _ = 1, 2 do -- an idle connection may have been closed
    if channel == 0 then
      local ok, opened = pcall(vim.fn.sockconnect, "pipe", path, { on_data = on_data })
      channel = ok and opened or 0
    end
    if channel ~= 0 and pcall(vim.fn.chansend, channel, line) then
      table.insert(waiting, shown or false)
      return true
    end
    channel = 0
  end
  return false
end
PmRecord = { send = send }

local function here()
  return vim.fn.expand("%:p"), vim.fn.line(".")
end

local function is_file(buffer)
  return vim.bo[buffer].buftype == "" and vim.api.nvim_buf_get_name(buffer) ~= ""
end

local group = vim.api.nvim_create_augroup("pm_record", {})
local function on(event, callback)
  vim.api.nvim_create_autocmd(event, { group = group, callback = callback })
end

on("BufWinEnter", function(told)
  if is_file(told.buf) then
    local file, line = here()
    send("navigation", { kind = "open", file_path = file, line = line })
  end
end)
on("BufUnload", function(told)
  if is_file(told.buf) then
    send("navigation", { kind = "close", file_path = vim.fn.fnamemodify(told.file, ":p") })
  end
end)
on("CmdlineLeave", function(told)
  local query = vim.fn.getcmdline()
  if (told.file == "/" or told.file == "?") and not vim.v.event.abort and query ~= "" then
    send("navigation", { kind = "search", file_path = here(), query = query })
  end
end)

local function command(name, arguments, callback, complete)
  vim.api.nvim_create_user_command(name, callback, { nargs = arguments, complete = complete and function()
    return complete
  end })
end

local kinds = { "hypothesis", "plan", "interpretation", "decision", "postmortem" }
command("PmThink", "+", function(told)
  local kind, text = told.args:match("^(%S+)%s+(.+)$")
  if not vim.tbl_contains(kinds, kind) then
    kind, text = "interpretation", told.args
  end
  send("thought", { kind = kind, content = text }, "noted as " .. kind)
end, kinds)

command("PmBreakpoint", "?", function(told)
  local file, line = here()
  local expression = told.args ~= "" and told.args or nil
  send("debug_action", { action = "breakpoint", file_path = file, line = line, expression = expression }, "breakpoint")
end)

command("PmTest", "*", function(told)
  local words = told.args ~= "" and told.args or vim.o.makeprg
  local began = vim.loop.hrtime()
  vim.cmd("botright new")
  vim.fn.termopen({ vim.o.shell, vim.o.shellcmdflag, words }, {
    on_exit = function(_, code)
      local took = math.floor((vim.loop.hrtime() - began) / 1e6)
      send("test_run", { command = words, exit_code = code, duration_ms = took }, "test run, exit code " .. code)
    end,
  })
end)

command("PmWithdraw", "+", function(told)
  send("consent", { withdraw = told.fargs }, "consent taken back: " .. told.args)
end, { "output", "judge", "code" })
