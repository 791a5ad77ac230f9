-- SPDX-License-Identifier: MIT
-- For wrk: POST /hash with 1 KiB.
wrk.method = "POST"
wrk.body = string.rep("troupe! ", 128)
wrk.headers["Content-Type"] = "application/octet-stream"
