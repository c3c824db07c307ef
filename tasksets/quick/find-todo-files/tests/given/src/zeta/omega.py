OMEGA = 'done'
