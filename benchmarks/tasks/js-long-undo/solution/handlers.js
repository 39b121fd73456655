"use strict";

// Handlers of the editor. Each takes the state and an argument and returns a new state.

function log(state, text) {
  return { ...state, log: [...state.log, text] };
}

// open
function onOpen(state, argument) {
  if (argument === undefined) {
    return log(state, "open: nothing given");
  }
  const count = (state.counts.open || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, open: count },
    last: "open",
  };
  return log(next, `open ${argument}`);
}

// close
function onClose(state, argument) {
  if (argument === undefined) {
    return log(state, "close: nothing given");
  }
  const count = (state.counts.close || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, close: count },
    last: "close",
  };
  return log(next, `close ${argument}`);
}

// save
function onSave(state, argument) {
  if (argument === undefined) {
    return log(state, "save: nothing given");
  }
  const count = (state.counts.save || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, save: count },
    last: "save",
  };
  return log(next, `save ${argument}`);
}

// load
function onLoad(state, argument) {
  if (argument === undefined) {
    return log(state, "load: nothing given");
  }
  const count = (state.counts.load || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, load: count },
    last: "load",
  };
  return log(next, `load ${argument}`);
}

// print
function onPrint(state, argument) {
  if (argument === undefined) {
    return log(state, "print: nothing given");
  }
  const count = (state.counts.print || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, print: count },
    last: "print",
  };
  return log(next, `print ${argument}`);
}

// export
function onExport(state, argument) {
  if (argument === undefined) {
    return log(state, "export: nothing given");
  }
  const count = (state.counts.export || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, export: count },
    last: "export",
  };
  return log(next, `export ${argument}`);
}

// import
function onImport(state, argument) {
  if (argument === undefined) {
    return log(state, "import: nothing given");
  }
  const count = (state.counts.import || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, import: count },
    last: "import",
  };
  return log(next, `import ${argument}`);
}

// rename
function onRename(state, argument) {
  if (argument === undefined) {
    return log(state, "rename: nothing given");
  }
  const count = (state.counts.rename || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, rename: count },
    last: "rename",
  };
  return log(next, `rename ${argument}`);
}

// delete
function onDelete(state, argument) {
  if (argument === undefined) {
    return log(state, "delete: nothing given");
  }
  const count = (state.counts.delete || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, delete: count },
    last: "delete",
  };
  return log(next, `delete ${argument}`);
}

// copy
function onCopy(state, argument) {
  if (argument === undefined) {
    return log(state, "copy: nothing given");
  }
  const count = (state.counts.copy || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, copy: count },
    last: "copy",
  };
  return log(next, `copy ${argument}`);
}

// paste
function onPaste(state, argument) {
  if (argument === undefined) {
    return log(state, "paste: nothing given");
  }
  const count = (state.counts.paste || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, paste: count },
    last: "paste",
  };
  return log(next, `paste ${argument}`);
}

// undo
function onUndo(state, argument) {
  if (argument === undefined) {
    return log(state, "undo: nothing given");
  }
  const count = (state.counts.undo || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, undo: count },
    last: "undo",
  };
  return log(next, `undo ${argument}`);
}

// redo
function onRedo(state, argument) {
  if (argument === undefined) {
    return log(state, "redo: nothing given");
  }
  const count = (state.counts.redo || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, redo: count },
    last: "redo",
  };
  return log(next, `redo ${argument}`);
}

// search
function onSearch(state, argument) {
  if (argument === undefined) {
    return log(state, "search: nothing given");
  }
  const count = (state.counts.search || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, search: count },
    last: "search",
  };
  return log(next, `search ${argument}`);
}

// replace
function onReplace(state, argument) {
  if (argument === undefined) {
    return log(state, "replace: nothing given");
  }
  const count = (state.counts.replace || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, replace: count },
    last: "replace",
  };
  return log(next, `replace ${argument}`);
}

// zoom
function onZoom(state, argument) {
  if (argument === undefined) {
    return log(state, "zoom: nothing given");
  }
  const count = (state.counts.zoom || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, zoom: count },
    last: "zoom",
  };
  return log(next, `zoom ${argument}`);
}

// scroll
function onScroll(state, argument) {
  if (argument === undefined) {
    return log(state, "scroll: nothing given");
  }
  const count = (state.counts.scroll || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, scroll: count },
    last: "scroll",
  };
  return log(next, `scroll ${argument}`);
}

// select
function onSelect(state, argument) {
  if (argument === undefined) {
    return log(state, "select: nothing given");
  }
  const count = (state.counts.select || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, select: count },
    last: "select",
  };
  return log(next, `select ${argument}`);
}

// share
function onShare(state, argument) {
  if (argument === undefined) {
    return log(state, "share: nothing given");
  }
  const count = (state.counts.share || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, share: count },
    last: "share",
  };
  return log(next, `share ${argument}`);
}

// archive
function onArchive(state, argument) {
  if (argument === undefined) {
    return log(state, "archive: nothing given");
  }
  const count = (state.counts.archive || 0) + 1;
  const next = {
    ...state,
    counts: { ...state.counts, archive: count },
    last: "archive",
  };
  return log(next, `archive ${argument}`);
}

module.exports = {
  onOpen,
  onClose,
  onSave,
  onLoad,
  onPrint,
  onExport,
  onImport,
  onRename,
  onDelete,
  onCopy,
  onPaste,
  onUndo,
  onRedo,
  onSearch,
  onReplace,
  onZoom,
  onScroll,
  onSelect,
  onShare,
  onArchive,
};
