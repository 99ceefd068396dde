"""An e-commerce shop's background jobs: e-mails, orders, payments, stock, reports, analytics."""
