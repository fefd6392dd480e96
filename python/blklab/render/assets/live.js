// Reads the page again while a campaign runs, unless nobody looks at it.
"use strict";
setInterval(() => { if (!document.hidden) location.reload(); }, 10000);
