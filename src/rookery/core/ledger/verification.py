"""Whether a ledger is whole: the auditor's script, under the product's names."""

from rookery.core.ledger.verify_ledger import Finding as Finding
from rookery.core.ledger.verify_ledger import KnownHead as KnownHead
from rookery.core.ledger.verify_ledger import Report as Report
from rookery.core.ledger.verify_ledger import Verifier as Verifier
from rookery.core.ledger.verify_ledger import calls_in_journal as calls_in_journal
from rookery.core.ledger.verify_ledger import exit_code as exit_code
from rookery.core.ledger.verify_ledger import known_head as known_head
from rookery.core.ledger.verify_ledger import ledger_files as ledger_files
from rookery.core.ledger.verify_ledger import read_files as read_files
from rookery.core.ledger.verify_ledger import told as told
